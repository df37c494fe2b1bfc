package placement

import "github.com/warmgate/warmgate/internal/simulate"

// Rivals returns other ways to choose, for loads that another benchmark plays in simulated time.
func Rivals() ([]simulate.Contender, error) {
	all, err := contenders()
	var list []simulate.Contender
	for i := range all {
		if c := &all[i]; !c.own() && c.Name != clairvoyantName {
			list = append(list, c.Contender)
		}
	}
	return list, err
}
