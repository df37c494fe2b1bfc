package redisclient_test

import (
	"testing"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb/storetest"
)

// As many conversations behind one prompt as the suite has for stores that are no round trip away.
func TestManyConversationsBehindOnePrompt(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	storetest.Shared(t, newBackend(t, server), 33, 1, 10_000)
}
