# A cache in each zone, on whichever of its nodes has room. The nodes of `setpoint dev` are in the zones a and b in turn.
job "cache" {
  type = "one-per"

  plugin "one-per" {
    attribute = "node.labels.zone"
  }

  task {
    command = ["/bin/sleep", "3600"]
  }
}
