package pipeline

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/initrd"
	"spore/builder/kmod"
	"spore/builder/kmod/kmodtest"
	"spore/builder/omit"
)

func TestARootListsTheModulesOfItsInitramfs(t *testing.T) {
	tree, err := kmodtest.Tree(kmodtest.Kernel)
	require.NoError(t, err)
	m, err := kmod.Scan(context.Background(), tree, kmodtest.Release, kmod.Part{})
	require.NoError(t, err)
	h, err := selectModules(m, omit.Keep{}, nil)
	require.NoError(t, err)
	require.Contains(t, string(h.Indexes[initrd.ListFile]), "dm_verity\n")
	require.NotContains(t, string(h.Indexes[initrd.ListFile]), "a_b\n", "a network card")
	require.Contains(t, h.Indexes, "modules.dep")
}
