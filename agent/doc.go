// Package agent is what runs on every node: it joins a cluster once, keeps one session with its server, runs the tasks that it is assigned, and
// tells what it observes.
//
// An Agent puts three parts together. The worker set (agent/worker) carries out assignments and needs no server. The session brings
// assignments down and reports, heartbeats and output up; it is built anew, with a growing pause, whenever it ends. The state file
// (agent/state) is what both remember. So without a server everything that runs runs on, and is reported later.
//
// Its data directory holds node.pem (certificate, key and the cluster's authority), agent.db, and agent.pid while it runs.
//
// Owner: itself; one agent holds a data directory at a time. The package imports agent/..., core/pki, proto, sdk/cluster and sdk/wire.
package agent
