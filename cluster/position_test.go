package cluster

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/cluster/check"
)

func TestAtIsTheEntryOrWhatIsAroundIt(t *testing.T) {
	c, _ := Load(fstest.MapFS{
		"cluster.yaml":       {Data: []byte("name: plant\nservices:\n  - dns\n  - mqtt\n")},
		"services/mqtt.yaml": {Data: []byte("# a comment\npersistence: true\n")},
	})
	for name, tc := range map[string]struct {
		file         string
		keys         []any
		line, column int
	}{
		"an entry of a list":         {"cluster.yaml", []any{"services", 1}, 4, 5},
		"an entry that is not there": {"cluster.yaml", []any{"services", 7}, 3, 3},
		"the settings of a service":  {"services/mqtt.yaml", []any{"persistence"}, 2, 14},
		"a file that is not there":   {"image.yaml", []any{"packages", 0}, 1, 1},
		"a file that nothing reads":  {"services/x/y.txt", nil, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, check.Problem{File: tc.file, Line: tc.line, Column: tc.column}, c.At(tc.file, tc.keys...))
		})
	}
}
