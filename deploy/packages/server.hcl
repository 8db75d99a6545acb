# The server's configuration: every file of this directory that ends in .hcl counts. /usr/share/doc/setpoint/config.hcl.example has all settings.

# Without a block like this the server is reached from this machine only.
# listen {
#   api = "0.0.0.0:7480"
# }

data_dir = "/var/lib/setpoint"
