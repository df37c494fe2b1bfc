package core

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/plugin/admission"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/views"
)

// count counts requests at a target in the local store, as long as the test runs.
func (d *fakeDriver) count(target string, n int) {
	d.t.Helper()
	st := memstore.New(d.kv, 99, time.Hour)
	for id := range n {
		if err := st.CountAt(d.now, lb.LeaseID(id+1), views.BudgetScope, target, 100); err != nil {
			d.t.Fatal(err)
		}
	}
	st.Flush(d.now)
}

// Advice is of the calls of all workers in the last minute, by the formula of pressure.share.
func TestAdvice(t *testing.T) {
	d, tasks := startAPI(t, 2, "")
	advice := func(what string, score string, parallelism string) {
		t.Helper()
		for worker := range 2 {
			d.wantAnswer(what, d.call(worker, "/advice"), 200,
				`{"backpressure_score":`+score+`,"suggested_parallelism":`+parallelism+`}`)
		}
	}
	advice("idle", "0", "32")
	d.count("a", 8)
	advice("8 in flight", "0", "32")
	for i := range 80 {
		d.call(i%2, "/schedule", okCall)
	}
	tasks.err, tasks.grant.Expected = lb.ErrOverBudget, 500*time.Millisecond
	for i := range 20 {
		d.call(i%2, "/schedule", okCall)
	}
	d.advance(200 * time.Millisecond)
	// 20 of 100 are refused; the p95 of waits is 500 or 600 ms, by chance
	all := admission.ReadPressure([]byte(d.kv.Cells[process.KeyAdmission+apiPath].Val))
	score := all.Share(d.now)
	if low, high := 0.5*475/975+0.1, 0.5*575/975+0.1; score < low-1e-9 || score > high+1e-9 {
		t.Errorf("score %v, want one from %v to %v", score, low, high)
	}
	shown := strconv.FormatFloat(math.Round(100*score)/100, 'f', -1, 64)
	advice("pressure", shown, strconv.Itoa(8+int(24*(1-score)+0.5)))
	d.advance(70 * time.Second)
	advice("a minute later", "0", "32")
	d.drained()
}

func TestAdviceWithoutACap(t *testing.T) {
	d := startSites(t, 1, strings.Replace(apiConfig(""), `,"max_concurrent_requests":2}`, `}`, 1))
	d.wantAnswer("without a cap", d.call(0, "/advice"), 200, `{"backpressure_score":0,"suggested_parallelism":null}`)
}

func TestModels(t *testing.T) {
	d := startTasks(t, 2)
	// of c an object, with what is in flight, its state and what follows from that
	want := func(what, a, b, c string) {
		t.Helper()
		d.wantAnswer(what, d.call(1, "/models"), 200, `{"models":[`+
			`{"id":"a",`+a+`},{"id":"b",`+b+`},{"id":"c",`+c+`}]}`)
	}
	limits := func(weight, cap, tokens, requests string) string {
		return `"weight":` + weight + `,"max_concurrent_requests":` + cap + `,"max_tokens_per_minute":` + tokens +
			`,"max_requests_per_minute":` + requests + `,"limits_set":[],`
	}
	const idle, one = `"in_flight":0,"tokens_in_flight":0,`, `"in_flight":1,"tokens_in_flight":`
	ofA, ofB, ofC := limits("3", "20", "200000", "0"), limits("1", "10", "0", "60"), limits("0.5", "2", "0", "0")
	left := func(tokens, requests, deficit, closed string) string {
		return `"tokens_left":` + tokens + `,"requests_left":` + requests + `,"deficit":` + deficit +
			`,"closed_for_ms":` + closed
	}
	restC := `"state":"open",` + idle + ofC + left("null", "null", "0", "0")
	want("idle", `"state":"open",`+idle+ofA+left("200000", "null", "0", "0"),
		`"state":"open",`+idle+ofB+left("null", "60", "0", "0"), restC)

	d.answer(0, "/schedule", `{"estimated_tokens":200000,"models":["a"]}`)
	d.admit(0, "b", "")
	a := `"state":"over_budget",` + one + `200000,` + ofA
	want("one task at each of two", a+left("0", "null", "0", "0"),
		`"state":"open",`+one+`1000,`+ofB+left("null", "59", "0", "0"), restC)

	local := d.workers[0].vm.Stores.Local
	local.Restrict(d.now, views.BudgetScope, "b",
		budget.Restriction{Tokens: -1, Requests: 0, RetryAfter: 5 * time.Second})
	d.admit(0, "c", "")
	d.admit(0, "c", "")
	c := `"state":"full","in_flight":2,"tokens_in_flight":2000,` + ofC + left("null", "null", "0", "0")
	want("closed, and full", a+left("0", "null", "0", "0"),
		`"state":"closed",`+one+`1000,`+ofB+left("null", "0", "0", "5000"), c)

	d.advance(3 * time.Second)
	d.sicken("a")
	want("later", `"state":"unhealthy",`+one+`200000,`+ofA+left("10000", "null", "0", "0"),
		`"state":"closed",`+one+`1000,`+ofB+left("null", "3", "0", "2000"), c)

	fake := d.fakeTasks()
	fake.err = lb.ErrUnready
	d.wantAnswer("no store", d.call(0, "/models"), 503, `{"error":"the store does not answer, try again"}`)
}

// A caller is suggested no more than its share has room for, whatever others have in flight beyond that.
func TestAdviceOfAShare(t *testing.T) {
	d := startCallers(t, "")
	tasks := d.fakeTasks()
	advice := func(token, want string) {
		t.Helper()
		d.wantAnswer(token, d.callerCall(token, "/advice", ""), 200, want)
	}
	d.count("a", 20)
	advice(chatToken, `{"backpressure_score":0,"suggested_parallelism":32}`)
	advice(etlToken, `{"backpressure_score":0,"suggested_parallelism":8}`)
	tasks.err, tasks.grant.Expected = lb.ErrOverBudget, time.Minute
	for range 20 {
		d.callerCall(etlToken, "/schedule", okCall)
	}
	advice(chatToken, `{"backpressure_score":1,"suggested_parallelism":20}`)
	advice(etlToken, `{"backpressure_score":1,"suggested_parallelism":5}`)
}
