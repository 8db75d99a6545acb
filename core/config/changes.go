package config

import "reflect"

// Changes returns which settings of two configurations differ, besides plugins and the log's level, in the order in which config.hcl.example has them. The
// agent's are left out: a server does not read them.
func Changes(before, after *Config) []string {
	var out []string
	differs := func(setting string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			out = append(out, setting)
		}
	}
	differs("name", before.Name, after.Name)
	differs("data_dir", before.DataDir, after.DataDir)
	differs("advertise", before.Advertise, after.Advertise)
	differs("record_inputs", before.RecordInputs, after.RecordInputs)
	differs("log.json", before.Log.JSON, after.Log.JSON)
	differs("listen", before.Listen, after.Listen)
	differs("tls", before.TLS, after.TLS)
	differs("dashboard", before.Dashboard, after.Dashboard)
	differs("store", before.Store, after.Store)
	differs("heartbeat", before.Heartbeat, after.Heartbeat)
	differs("replace", before.Replace, after.Replace)
	differs("placement", before.Placement, after.Placement)
	differs("pool", before.Pools, after.Pools)
	differs("audit", before.Audit, after.Audit)
	differs("limits", before.Limits, after.Limits)
	differs("telemetry", before.Telemetry, after.Telemetry)
	differs("notify", before.Notify, after.Notify)
	return out
}
