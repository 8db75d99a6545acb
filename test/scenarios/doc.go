// Package scenarios shows that the binary behaves as a whole as people were promised: each test is a story from the field, played on a real server with real
// agents and plugins. By default each is played once and briefly; with SETPOINT_SCENARIOS=full as often and as long as it takes to believe it.
//
// Owner: nobody imports it. What the stories need is in test/internal/bench.
package scenarios
