package quota

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/services"
)

func TestNumbersStayTheSameAndAreOurs(t *testing.T) {
	one, two := Limit{Path: "/var/lib/recorder"}, Limit{Path: "/var/lib/pulse"}
	list := []Limit{one, two}
	number(list)
	require.NotEqual(t, list[0].Project, list[1].Project)
	for _, l := range list {
		alone := []Limit{{Path: l.Path}}
		number(alone)
		require.Equal(t, l.Project, alone[0].Project, "whatever others there are")
		require.GreaterOrEqual(t, l.Project, uint32(firstProject))
		require.Less(t, l.Project, uint32(2*firstProject))
	}
}

func TestNoTwoDirectoriesHaveOneNumber(t *testing.T) {
	// The same path twice would have the same number; so would two paths of one sum.
	list := []Limit{{Path: "/var/lib/a"}, {Path: "/var/lib/a"}, {Path: "/var/lib/a"}}
	number(list)
	require.Len(t, map[uint32]bool{list[0].Project: true, list[1].Project: true, list[2].Project: true}, 3)
}

func TestTheQuotasOfANodeAreThoseOfItsRoles(t *testing.T) {
	list, err := services.With([]services.Definition{
		&role.Definition{Name: "store", Description: "x", Units: []string{"store.service"}, Directories: []role.Directory{
			{Path: "/var/lib/store", Quota: "2GiB"}, {Path: "/var/cache/store", Quota: "16MiB"}, {Path: "/var/log/store"},
		}},
		&role.Definition{Name: "other", Description: "x", Units: []string{"other.service"}, Directories: []role.Directory{
			{Path: "/var/lib/other", Quota: "1GiB"},
		}},
	})
	require.NoError(t, err)
	c := &facts.Cluster{Roles: list.Facts()}
	got := Of(c, &facts.Node{Roles: []string{"dns-server", "store"}})
	require.Len(t, got, 2)
	for i, want := range []Limit{
		{Role: "store", Path: "/var/cache/store", Bytes: 16 << 20}, {Role: "store", Path: "/var/lib/store", Bytes: 2 << 30},
	} {
		want.Project = got[i].Project
		require.Equal(t, want, got[i])
	}
	require.Empty(t, Of(c, &facts.Node{Roles: []string{"dns-server"}}))
	c, nodes := shipped(t)
	for i := range nodes {
		require.Empty(t, Of(c, &nodes[i]), "a configuration without roles of its own has none")
	}
}

func shipped(t *testing.T) (*facts.Cluster, []facts.Node) {
	config, report := cluster.LoadDir("../../configs")
	require.False(t, report.Failed(), report.String())
	c, nodes := cluster.Facts(config)
	return &c, nodes
}

func TestADirectoryHasAsManyFilesAsAFileSystemOfItsSize(t *testing.T) {
	for bytes, want := range map[uint64]uint64{1 << 20: 1024, 16 << 20: 1024, 2 << 30: 131072} {
		require.Equal(t, want, files(bytes))
	}
}

// The kernel's structures (include/uapi/linux/quota.h, fs.h) have these sizes, which are in the numbers of the calls.
func TestTheStructuresAreThoseOfTheKernel(t *testing.T) {
	require.EqualValues(t, 72, unsafe.Sizeof(usage{}))
	require.EqualValues(t, 64, unsafe.Offsetof(usage{}.valid))
	require.EqualValues(t, 28, unsafe.Sizeof(fsxattr{}))
	require.EqualValues(t, 12, unsafe.Offsetof(fsxattr{}.project))
}

func TestWhatCannotBeHeldToAQuotaSaysWhy(t *testing.T) {
	require.ErrorIs(t, Set(filepath.Join(t.TempDir(), "none"), nil), unix.ENOENT)
	proc, err := os.Open("/proc/self")
	require.NoError(t, err)
	defer proc.Close()
	require.Error(t, Assign(proc, firstProject), "no file system with projects")
	require.Error(t, Set("/proc/self", []Limit{{Path: "/var/lib/x", Bytes: 1 << 20, Project: firstProject}}))
}
