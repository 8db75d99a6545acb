# A job that waits until a node is given the label: setpoint node label n1 disk=ssd.
job "picky" {
  plugin "cel" {
    expr = "node.labels.disk == 'ssd' && node.cpu >= 2.0"
    rank = "node.labels.zone == 'b' ? 50 : 0"
  }

  task {
    command = ["/bin/sleep", "3600"]
  }
}
