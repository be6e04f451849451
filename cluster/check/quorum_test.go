package check

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// page is a file in which every place is at its beginning.
type page string

func (p page) Path() string              { return string(p) }
func (p page) At(...any) (line, col int) { return 1, 1 }
func (p page) Has(...any) bool           { return true }
func (p page) Faulty(line, col int) bool { return false }

func TestOnlyAnEvenNumberOfVotersIsAWarning(t *testing.T) {
	for n, want := range map[int]string{
		0: "", 1: "", 3: "", 5: "",
		2: "2 voters: their quorum is 2 and lost as soon as 1 fails, as with 1; use 1 or 3",
		4: "4 voters: their quorum is 3 and lost as soon as 2 fail, as with 3; use 3 or 5",
	} {
		k := &Checker{}
		k.Quorum(In(page("cluster.yaml")), n, "voters", "their")
		if want == "" {
			require.Empty(t, k.Report, n)
			continue
		}
		require.Equal(t, Report{{Severity: Warning, File: "cluster.yaml", Line: 1, Column: 1, Message: want}}, k.Report)
	}
}
