package budget

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// router is a client of whoever places tasks.
type router struct {
	base   string // that the paths of calls follow
	token  string // "" for none
	client *http.Client
}

// placement is where a task was placed, or how long to wait.
type placement struct {
	Model string `json:"model_backend_id"`
	Task  string `json:"task_id"`
	Wait  int    `json:"wait_for_ms"`
}

func (p *placement) admitted() bool { return p.Task != "" }

// schedule asks for a model. A key that is not "" has the same answer given to a call that is repeated.
func (r *router) schedule(ctx context.Context, tokens int, key string) (p placement, err error) {
	ask := map[string]any{"estimated_tokens": tokens}
	if key != "" {
		ask["idempotency_key"] = key
	}
	status, err := r.do(ctx, http.MethodPost, "/schedule", ask, &p)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("schedule: status %d", status)
	}
	return p, err
}

// unknown is how many tokens a task has used of which that is not said: it stays charged for its estimate.
const unknown = -1

// errLost means that a lease was over before it was renewed.
var errLost = errors.New("the lease is over")

// complete ends a task that has used so many tokens.
func (r *router) complete(ctx context.Context, task string, used int) error {
	end := map[string]any{"task_id": task}
	if used != unknown {
		end["actual_tokens"] = used
	}
	var answer struct {
		OK     bool   `json:"ok"`
		Reason string `json:"reason"`
	}
	status, err := r.do(ctx, http.MethodPost, "/complete", end, &answer)
	if err == nil && answer.Reason == "abandoned" {
		err = errLost
	} else if err == nil && !answer.OK {
		err = fmt.Errorf("complete: status %d %s", status, answer.Reason)
	}
	return err
}

// heartbeat renews a task, and reports whether there is such a task.
func (r *router) heartbeat(ctx context.Context, task string) (bool, error) {
	var answer struct {
		OK bool `json:"ok"`
	}
	_, err := r.do(ctx, http.MethodPost, "/heartbeat", map[string]any{"task_id": task}, &answer)
	return answer.OK, err
}

// advice returns how many tasks should be in flight.
func (r *router) advice(ctx context.Context) (int, error) {
	var answer struct {
		Parallelism int `json:"suggested_parallelism"`
	}
	status, err := r.do(ctx, http.MethodGet, "/advice", nil, &answer)
	if err == nil && answer.Parallelism <= 0 {
		err = fmt.Errorf("advice: status %d without a number of workers", status)
	}
	return answer.Parallelism, err
}

// inflight returns how many tasks are counted, over all models.
func (r *router) inflight(ctx context.Context) (sum int, err error) {
	var answer struct {
		Models []struct {
			Inflight int `json:"in_flight"`
		}
	}
	status, err := r.do(ctx, http.MethodGet, "/models", nil, &answer)
	if err == nil && len(answer.Models) == 0 {
		err = fmt.Errorf("models: status %d without models", status)
	}
	for _, m := range answer.Models {
		sum += m.Inflight
	}
	return sum, err
}

// repeats is how often a call is sent that gets no answer or a server's error, and repeatAfter how long before each
// repetition: every call may be repeated.
const repeats, repeatAfter = 5, 100 * time.Millisecond

// do sends a call and reads its answer.
func (r *router) do(ctx context.Context, method, path string, ask, answer any) (status int, err error) {
	var body []byte
	if ask != nil {
		if body, err = json.Marshal(ask); err != nil {
			return 0, err
		}
	}
	for range repeats {
		status, err = r.once(ctx, method, path, body, answer)
		if ctx.Err() != nil || err == nil && status < 500 {
			return status, err
		}
		time.Sleep(repeatAfter)
	}
	if err == nil {
		err = fmt.Errorf("%s: status %d, %d times", path, status, repeats)
	}
	return status, err
}

func (r *router) once(ctx context.Context, method, path string, body []byte, answer any) (int, error) {
	q, err := http.NewRequestWithContext(ctx, method, r.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	if r.token != "" {
		q.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := r.client.Do(q)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode < 500 {
		if err = json.Unmarshal(text, answer); err != nil {
			err = fmt.Errorf("%s: status %d: %w: %.200s", path, resp.StatusCode, err, text)
		}
	}
	return resp.StatusCode, err
}
