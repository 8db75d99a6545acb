// Package daemon puts a server together: store, engine, plugins, agents' sessions and API, each of which knows only the interfaces that it needs.
//
// A start takes hold of the store first, so that a second server on one data directory is told who has it before anything is touched; then come
// certificates, the listener and the files with which commands find it. What runs is stopped in the opposite order of what depends on it: first what takes
// requests, then plugins, at last the engine, and the store is closed when nothing commits any more.
//
// Owner: of the server's data directory. It may import everything below cmd.
package daemon
