// Package secret keeps the cluster's secrets: values that tasks need and nobody is shown. A Vault has a file for each secret, in which every version is sealed with a key that
// lies elsewhere, and gives a value to the dispatcher only, for the node whose task asks for it.
//
// Owner: the server. The package imports the standard library and sdk/cluster.
package secret
