package formation

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhoeverIsEmptyJoinsWhatWasAdopted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "formation")
	nonce := NewNonce()
	adopt := func(nonce string) error { return Adopt(dir, "etcd", "c", "b", []string{"c", "b", "a"}, nonce) }
	require.NoError(t, adopt(nonce))
	s, err := Read(dir, "etcd")
	require.NoError(t, err)
	p, ok := plan(*s)
	require.True(t, ok)
	require.Equal(t, Plan{Kind: Run, Nonce: nonce}, p, "its service starts with the data as it is")

	// Even the one that would write the record of a first formation.
	empty := empties("c", "a", []string{"a", "b", "c"}, newNonce())
	v := judge(empty, map[string]Reply{"b": {Answer: answer("c", "b", "etcd", s)}, "c": {Answer: answer("c", "c", "etcd", nil)}})
	require.True(t, v.join, v.why)

	before, err := os.ReadFile(filepath.Join(dir, "etcd.json"))
	require.NoError(t, err)
	require.NoError(t, adopt(nonce))
	after, err := os.ReadFile(filepath.Join(dir, "etcd.json"))
	require.NoError(t, err)
	require.Equal(t, before, after, "a second time changes nothing")

	lost, err := wake(s, "c", "b", []string{"a", "b", "c"}, true, newNonce)
	require.NoError(t, err)
	p, ok = plan(lost)
	require.True(t, ok)
	require.Equal(t, Join, p.Kind, "a member that loses what was adopted joins like any other")
}

func TestAdoptingOverWhatTheMemberWas(t *testing.T) {
	dir := t.TempDir()
	for name, file := range map[string]State{
		"it had data":     {Cluster: "c", Node: "b", Nonce: newNonce(), Made: true, Formed: true},
		"it had lost it":  {Cluster: "c", Node: "b", Nonce: newNonce(), Formed: true},
		"it was empty":    empties("c", "b", []string{"a", "b"}, newNonce()),
		"it was forming":  {Cluster: "c", Node: "b", Nonce: newNonce(), Making: true},
		"another restore": {Cluster: "c", Node: "b", Nonce: newNonce(), Made: true, Formed: true},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "etcd.json"), encode(file), 0o644))
		nonce := NewNonce()
		require.NoError(t, Adopt(dir, "etcd", "c", "b", []string{"a", "b"}, nonce), name)
		s, err := Read(dir, "etcd")
		require.NoError(t, err)
		require.Equal(t, nonce, s.Nonce, name)
		require.True(t, s.Made && s.Formed && !s.Making, name)
	}
	require.ErrorContains(t, Adopt(dir, "etcd", "c", "a", nil, NewNonce()), "is that of member b of cluster c, and this is a of c")
	require.ErrorContains(t, Adopt(dir, "etcd", "d", "b", nil, NewNonce()), "and this is b of d")
	require.ErrorContains(t, Adopt(dir, "etcd", "c", "b", nil, "x"), "internal error")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etcd.json"), []byte("{"), 0o644))
	require.ErrorIs(t, Adopt(dir, "etcd", "c", "b", nil, NewNonce()), errDamaged)
}
