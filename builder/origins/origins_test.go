package origins

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
)

func laid(t testing.TB) (*tree.Tree, *Table) {
	t.Helper()
	tr := tree.New()
	for p, origin := range map[string]string{"/usr/bin/a": "deb:a_1", "/usr/bin/a-b": "deb:a_1", "/usr/bin/b": "payload:b", "/usr/bin/a/../z": "deb:a_1"} {
		require.NoError(t, tr.WriteFile(p, []byte(p), 0o644, origin))
	}
	require.NoError(t, Lay(tr, []LeftOut{
		{Path: "/usr/share/man", Step: "drop-files", Why: "documentation", Bytes: 7},
		{Path: "dpkg", Step: "drop-packages", Why: "packages are not changed", Files: []string{"/usr/bin/dpkg", "/usr/share/man/dpkg.1"}},
		{Path: "/usr/share", Step: "other", Why: "wider"},
	}))
	data, err := tr.ReadFile(Path)
	require.NoError(t, err)
	table, err := Decode(data)
	require.NoError(t, err)
	return tr, table
}

func TestEveryPathHasItsOrigin(t *testing.T) {
	tr, table := laid(t)
	list, err := table.List(len(tr.Paths()))
	require.NoError(t, err)
	for i, p := range tr.Paths() {
		n, err := tr.Lstat(p)
		require.NoError(t, err)
		require.Equal(t, n.Origin, list[i], p)
	}
	require.Contains(t, list, "step:origins")
}

func TestATableOfAnotherRootIsRefused(t *testing.T) {
	tr, table := laid(t)
	count := len(tr.Paths())
	for _, n := range []int{count - 1, count + 1, 0} {
		_, err := table.List(n)
		require.Error(t, err)
	}
	table.Runs[0][0] = len(table.Origins)
	_, err := table.List(count)
	require.ErrorContains(t, err, "does not fit")
	_, err = Decode([]byte(`{"format":2}`))
	require.ErrorContains(t, err, "this program knows 1")
	_, err = Decode([]byte(`{`))
	require.Error(t, err)
}

func TestWhatIsLeftOutIsKnownByItsClosestRule(t *testing.T) {
	_, table := laid(t)
	for p, want := range map[string]string{
		"/usr/share/man/man1/ls.1": "documentation", "/usr/share/man": "documentation", "/usr/share/manual": "wider",
		"/usr/share/man/dpkg.1": "packages are not changed", "/usr/bin/dpkg": "packages are not changed",
	} {
		got := table.Missing(p)
		require.NotNil(t, got, p)
		require.Equal(t, want, got.Why, p)
	}
	require.Nil(t, table.Missing("/usr/bin/none"))
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"format":1,"origins":["a"],"runs":[[0,3]],"leftOut":[{"path":"/x","step":"s","why":"w"}]}`), 3, "/x/y")
	f.Add([]byte(`{"format":1,"origins":[],"runs":[[0,-1],[-1,9]]}`), 9, "")
	f.Fuzz(func(t *testing.T, data []byte, count int, p string) {
		table, err := Decode(data)
		if err != nil {
			return
		}
		table.Missing(p)
		if list, err := table.List(min(max(count, 0), 1<<16)); err == nil {
			require.Len(t, list, min(max(count, 0), 1<<16))
		}
	})
}
