// Package config reads the daemon's configuration: HCL files, or the same in JSON, with every mistake at its line and all at once.
//
// A plugin's config block is kept as it stands until the plugin has described which settings it takes; then DecodePluginConfig checks it and makes JSON of
// it, and what the plugin itself says about the values is pointed at with LocateDiagnostic. The same is done with what a job says to a plugin, which a
// server has as JSON only: CheckSettings.
//
// config.hcl.example at the root of the repository shows every setting. The package imports hcl, cty, core/hcltext and sdk.
package config
