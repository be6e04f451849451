package kmod

import (
	"context"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/kmod/kmodtest"
)

// deep is a kernel whose drivers each need a bus, which needs a core; a damaged module lies where nobody wants one.
var deep = []kmodtest.Module{
	{Path: "kernel/bus/core.ko", Exports: []string{"core"}},
	{Path: "kernel/bus/the-bus.ko", Exports: []string{"bus"}, Needs: []string{"core"}, Info: []string{"depends=core"}},
	{Path: "kernel/wanted/driver.ko", Needs: []string{"bus"}, Info: []string{"depends=the-bus", "softdep=pre: helper post: nobody"}},
	{Path: "kernel/other/helper.ko", Info: []string{"depends="}},
	{Path: "kernel/other/named.ko", Info: []string{"alias=pci:v1*"}},
	{Path: "kernel/other/unwanted.ko", Needs: []string{"bus"}, Info: []string{"depends=the_bus"}},
}

func TestOfAPartOnlyWhatIsWantedAndNeededIsRead(t *testing.T) {
	tr, err := kmodtest.Tree(deep)
	require.NoError(t, err)
	wanted := func(p string) bool { return strings.HasPrefix(p, "kernel/wanted/") }
	driver := []string{"core", "the_bus", "driver", "helper"}
	all := []string{"core", "the_bus", "driver", "helper", "named", "unwanted"}
	for name, c := range map[string]struct {
		part Part
		want []string
	}{
		"all":                             {Part{}, all},
		"a directory, with what it needs": {Part{Wanted: wanted}, driver},
		"a name":                          {Part{Wanted: wanted, Names: []string{"named", "not-there"}}, append(slices.Clone(driver), "named")},
		"a required name":                 {Part{Wanted: wanted, Required: []string{"named"}}, append(slices.Clone(driver), "named")},
		"one that is built in":            {Part{Wanted: wanted, Required: []string{"virtio-pci"}}, driver},
		"an alias is known when all are":  {Part{Wanted: wanted, Required: []string{"pci:v1d2"}}, all},
		"nothing":                         {Part{Wanted: func(string) bool { return false }}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Scan(context.Background(), tr, kmodtest.Release, c.part)
			require.NoError(t, err)
			var got []string
			for _, mod := range m.Loadable {
				got = append(got, mod.Name)
			}
			require.Equal(t, c.want, got)
			var unread []string
			for _, mod := range deep {
				if !slices.Contains(c.want, nameOf(mod.Path)) {
					unread = append(unread, mod.Path)
				}
			}
			require.Equal(t, unread, m.Unread)
		})
	}
}

func TestAModuleThatIsNotReadMayBeAnything(t *testing.T) {
	tr, err := kmodtest.Tree(deep)
	require.NoError(t, err)
	file := path.Join(Dir, kmodtest.Release, "kernel/other/unwanted.ko")
	require.NoError(t, tr.Remove(file))
	require.NoError(t, tr.WriteFile(file, []byte("no ELF file"), 0o644, "test"))
	_, err = Scan(context.Background(), tr, kmodtest.Release, Part{Wanted: func(p string) bool { return !strings.HasPrefix(p, "kernel/other/") }})
	require.NoError(t, err)
	_, err = Scan(context.Background(), tr, kmodtest.Release, Part{})
	require.ErrorContains(t, err, "kernel/other/unwanted.ko: not an ELF file")
}
