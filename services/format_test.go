package services

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheFormatIsStable(t *testing.T) {
	require.Regexp(t, `^[0-9a-f]{16}$`, Format())
	require.Equal(t, Format(), Format())
}

func TestAnotherFormHasAnotherFormat(t *testing.T) {
	type leaf struct {
		A string `json:"a"`
	}
	type node struct {
		Leaf  leaf             `json:"leaf"`
		Next  *node            `json:"next"`
		Words []string         `json:"words"`
		Map   map[string]*leaf `json:"map"`
	}
	type renamed struct {
		Leaf  leaf             `json:"sheet"`
		Next  *node            `json:"next"`
		Words []string         `json:"words"`
		Map   map[string]*leaf `json:"map"`
	}
	type retyped struct {
		Leaf  leaf             `json:"leaf"`
		Next  *node            `json:"next"`
		Words []int            `json:"words"`
		Map   map[string]*leaf `json:"map"`
	}
	seen := map[string]bool{}
	for _, v := range []any{leaf{}, node{}, renamed{}, retyped{}, struct{ A int }{}, struct{ B int }{}} {
		seen[formatOf(v)] = true
	}
	require.Len(t, seen, 6)
	require.NotEqual(t, formatOf(leaf{}, node{}), formatOf(node{}, leaf{}))
}
