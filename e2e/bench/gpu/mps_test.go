package gpu

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"

	"github.com/warmgate/warmgate/e2e/child"
)

// TestMPSThatDoesNotQuit ends the service, which does not end when it is asked to, and what it has started.
func TestMPSThatDoesNotQuit(t *testing.T) {
	server, err := child.Start(exec.Command("sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	programs(t, "quit) kill", fmt.Sprintf("get_server_list) [ -f \"$CUDA_MPS_PIPE_DIRECTORY/pid\" ] && echo %d ;;\n"+
		"quit) exit 1; kill", server.PID()))
	m, err := startMPS(t.Context(), []card{{uuid: "GPU-0a"}}, 2, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if group, err := syscall.Getpgid(m.process.PID()); err != nil || group != m.process.PID() {
		t.Errorf("the service is in process group %d, where an interrupt reaches it: %v", group, err)
	}
	m.stop()
	<-server.Done()
	if m.process.Ended() == nil {
		t.Error("the service runs")
	}
}
