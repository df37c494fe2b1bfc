package main

// tooLarge lists the packages that were beyond the limits of shape.go before these were held, with what they have. A
// row may only become less: who makes a package smaller lowers its row.
var tooLarge = map[string]shape{
	"e2e/higresshost": {
		circle: 12,
	},
	"e2e/queuecheck": {circle: 8},
	"e2e/redisserver": {
		pairs: []string{
			"Server.Kill and Server.kill",
		},
	},
	"e2e/streamtest": {
		circle: 21, methods: map[string]int{"run": 88},
		pairs: []string{
			"run.Configure and run.configure",
			"run.Open and run.open",
			"run.Log and run.log",
		},
	},
	"e2e/vllmsim": {
		circle: 20,
		pairs: []string{
			"Fleet.State and Fleet.state",
		},
	},
	"plugin/core": {circle: 12},
}
