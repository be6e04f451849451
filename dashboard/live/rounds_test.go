package live

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
)

func TestTheNodeThatAnsweredLastIsAskedFirst(t *testing.T) {
	nodes := []facts.Node{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	for last, want := range map[string]string{"": "a b c", "a": "a b c", "c": "c a b", "gone": "a b c"} {
		var names []string
		for _, n := range preferring(nodes, last) {
			names = append(names, n.Name)
		}
		require.Equal(t, want, strings.Join(names, " "))
	}
	require.Equal(t, "a", nodes[0].Name)
}

func TestWhatNodesSayIsKeptAsFarAsThereIsRoom(t *testing.T) {
	var l lines
	require.Nil(t, l.all())
	for range 2 * maxSaid {
		n, err := l.Write([]byte("a: x\n"))
		require.NoError(t, err)
		require.Equal(t, 5, n)
	}
	require.Equal(t, "a: x", l.all()[0])
	require.LessOrEqual(t, l.text.Len(), maxSaid)
}
