// Package compose reads Compose files as jobs: one service becomes one job for the docker driver.
//
// What Setpoint does not have is told as losses, each with its line; nothing of a file is dropped in silence. The table of what becomes of each key of a
// service is in fates.go, and a key that it does not name is a loss. The file's meaning (interpolation, anchors, extends, include, short forms) is
// compose-go's; where everything stood is found in the YAML tree, which compose-go does not keep.
//
// It reads the files that a Compose file names: those of extends, include and env_file, and a .env beside it.
//
// It imports compose-go, yaml, hcl, sdk/cluster, core/hcltext and core/jobfile.
package compose
