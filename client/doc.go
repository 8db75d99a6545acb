// Package client reaches a Setpoint server from Go: it makes the API's client with a credential, tells what a refusal says, and helps with
// waiting and watching.
//
// It keeps no state but its connections. It imports core/pki for credentials and the API's messages, nothing else of the server.
package client
