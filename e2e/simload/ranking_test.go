package simload

import "testing"

const page = `
| policy | TTFT | cached |
| --- | ---: | ---: |
| old | 1 (1..1) | 1 (1..1) |

| policy | TTFT | note | cached |
| --- | ---: | --- | ---: |
| a | 10 (9..11) | x | 0.5 (0.4..0.6) |
| b | 20 (15..22) | y | 0.5 (0.3..0.6) |
| c | 18 (17..19) | z | 0.9 (0.8..0.9) |
| d | none | z | 0.9 (0.8..0.9) |
`

func TestRanking(t *testing.T) {
	real, err := tabulated(page, "page", "b", []string{"TTFT", "cached"})
	if err != nil || len(real) != 3 || real["a"]["TTFT"] != (Span{10, 9, 11}) || real["c"]["cached"].Median != 0.9 {
		t.Fatalf("%v, %v", real, err)
	}
	var r Ranking
	r.Add(real, map[string]map[string]float64{
		"a": {"TTFT": 3, "cached": 0.1}, "b": {"TTFT": 2, "cached": 0.2}, "c": {"TTFT": 5, "cached": 0.3},
	})
	// By TTFT a differs from b and from c; by cached, c differs from both.
	if r.Pairs != 4 || r.Same != 3 || len(r.Otherwise) != 1 || r.Share() != 0.75 {
		t.Errorf("%+v", r)
	}
	if _, err := tabulated(page, "page", "e", []string{"TTFT"}); err == nil {
		t.Error("a row that is not there was found")
	}
}
