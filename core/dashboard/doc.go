// Package dashboard is what people look at with a browser: stalls first, then jobs, nodes, tasks, plugins and events, as they are and as they change.
//
// It decides nothing. What it shows comes from the newest published state, which never changes, and from calls of the API; what people do is a call of the API as
// the person who is logged in, which passes the same gate as a command's. Pages and drawings are made by html/template here, and are sent again over server-sent
// events where they have changed.
//
// Owner: of logins and sessions, which are kept in memory only. It imports the engine's types, core/pki for identities, the vocabulary and the messages; it is a
// shell, and imports no other.
package dashboard
