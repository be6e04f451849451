package approvals

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/pki/enroll"
)

func approval(t *testing.T, node string) enroll.Approval {
	t.Helper()
	key, err := enroll.NewKey()
	require.NoError(t, err)
	return enroll.Approval{Claim: enroll.NewClaim(enroll.Claim{Cluster: "c", Node: node, Key: key.Public()}), Sealed: []byte("sealed"), At: time.Unix(1_780_000_000, 0).UTC()}
}

func TestApprovalsAreKeptOneForANode(t *testing.T) {
	out := t.TempDir()
	list, err := Load(out)
	require.NoError(t, err)
	require.Empty(t, list)

	first, again, other := approval(t, "edge-1"), approval(t, "edge-1"), approval(t, "edge-2")
	for _, a := range []enroll.Approval{first, other, first, again} {
		require.NoError(t, Save(out, a))
	}
	list, err = Load(out)
	require.NoError(t, err)
	require.ElementsMatch(t, []enroll.Approval{again, other}, list)

	require.NoError(t, Drop(out, again.Claim.Fingerprint()))
	require.NoError(t, Drop(out, again.Claim.Fingerprint()))
	require.NoError(t, os.WriteFile(filepath.Join(out, "kept.json"), nil, 0o600))
	require.NoError(t, Drop(out, "../kept"))
	require.FileExists(t, filepath.Join(out, "kept.json"))
	list, err = Load(out)
	require.NoError(t, err)
	require.Equal(t, []enroll.Approval{other}, list)
	left, err := os.ReadDir(filepath.Join(out, Name))
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing else is left")
}

func TestWhatIsNoApprovalIsLeftOutAndNamed(t *testing.T) {
	out := t.TempDir()
	good := approval(t, "edge-1")
	require.NoError(t, Save(out, good))
	data, err := os.ReadFile(filepath.Join(out, Name, good.Claim.Fingerprint()+".json"))
	require.NoError(t, err)
	for name, content := range map[string][]byte{
		"aaaa.json": data, "bbbb.json": []byte("x"), "readme": []byte("x"), ".approval-1": []byte("x"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(out, Name, name), content, 0o600))
	}
	list, err := Load(out)
	require.ErrorContains(t, err, "the approval aaaa.json is left out: it is the approval of another fingerprint")
	require.ErrorContains(t, err, "the approval bbbb.json is left out: the message is malformed")
	require.NotContains(t, err.Error(), "readme")
	require.Equal(t, []enroll.Approval{good}, list)
}
