// Package bench runs a whole cluster on this machine for tests: a server, agents and their plugins, all of them the real binary in processes of their own.
//
// A test drives it as an operator would, through the command line, and does to its processes what the world does to machines: it silences agents, cuts their
// power, kills the server and plugins. What it believes about tasks is not what the server says but what is true on the nodes: the event logs of the sim
// driver, and the processes that carry a task's mark. A sampler compares the two all the time and holds the invariants, see Sampler.
//
// Owner: the test that calls Start owns the cluster; everything that was started has ended when the test has. The package may import anything of this module,
// and is imported by tests only. Linux only.
package bench
