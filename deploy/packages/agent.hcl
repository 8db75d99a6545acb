# The agent's configuration: every file of this directory that ends in .hcl counts. /usr/share/doc/setpoint/config.hcl.example has all settings.
#
# Before the first start: where a server is, and a file with a token that `setpoint token create` printed there.

agent {
  server     = "127.0.0.1:7480"
  token_file = "/etc/setpoint/join-token"
  data_dir   = "/var/lib/setpoint-agent"
}
