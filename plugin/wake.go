package main

import (
	"strconv"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
)

// VMs wake each other by the gateway's shared queues. A queue calls the last VM that has registered it, in the name of
// one configuration, so each VM has one of its own. The gateway never frees a queue, but there are only as many as VMs.

// maxKnownQueues is how many queues of other VMs are remembered.
const maxKnownQueues = 256

// knownQueues are the queues of other VMs, by owner.
var knownQueues = map[uint64]uint32{}

func queueName(owner uint64) string { return "warmgate/1/wake/" + strconv.FormatUint(owner, 16) }

// Listen implements host.Gateway.
func (gateway) Listen(context uint32, owner uint64) (err error) {
	asPlugin(context, func() { _, err = proxywasm.RegisterSharedQueue(queueName(owner)) })
	return err
}

// Wake implements host.Gateway. An owner that cannot be called finds what it waits for at its next tick.
func (gateway) Wake(owner uint64, message []byte) {
	queue, known := knownQueues[owner]
	if !known {
		var err error
		if queue, err = proxywasm.ResolveSharedQueue(property("plugin_vm_id"), queueName(owner)); err != nil {
			return
		}
		if len(knownQueues) >= maxKnownQueues {
			clear(knownQueues)
		}
		knownQueues[owner] = queue
	}
	_ = proxywasm.EnqueueSharedQueue(queue, message)
}

// maxMessages is how many messages are read at a time: the gateway calls once for each.
const maxMessages = maxKnownQueues * 16

// drain empties a queue, and returns what was in it.
func drain(queue uint32) (messages [][]byte) {
	for range maxMessages {
		m, err := proxywasm.DequeueSharedQueue(queue)
		if err != nil {
			break
		}
		messages = append(messages, m)
	}
	return messages
}
