package list

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

func TestEachVerbOfTheTableIsCarriedOut(t *testing.T) {
	var names []string
	for _, v := range nodeapi.Verbs() {
		names = append(names, v.Name)
	}
	require.True(t, slices.IsSorted(names), "in the order of the alphabet")
	require.Equal(t, names, slices.Sorted(maps.Keys(Handlers())))
}
