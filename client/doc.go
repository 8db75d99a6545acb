// Package client reaches a Setpoint server from Go, as the command setpoint itself does.
//
// A [Client] has every call of the API (docs/API.md, docs/reference/api.md), and adds what each caller would have to write:
//
//   - Each command is given a key, under which it is carried out once, and a call whose answer was lost is made again a few times; [OnlyOnce] is for callers that keep keys
//     of their own.
//   - [IfMatch] makes a command one for the version of a job that was looked at; [IsConflict] says that it is another by now.
//   - [Detail] finds what a refusal says for programs.
//   - [All] goes through lists that come in pages, and [Client.Watch] follows what happens across broken connections.
//   - [Client.WaitJob], [Client.WaitNode] and [Client.WaitReady] wait for something to be as wanted.
//   - [Login] and [Client.Renew] get credentials.
//
// The package keeps no state but its connections. It imports core/pki for credentials and the API's messages, nothing else of the server.
package client
