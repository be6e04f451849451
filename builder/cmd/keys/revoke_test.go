package keys

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/builder/revocation"
	"spore/builder/secureboot"
	"spore/builder/uki/ukitest"
	"spore/pki/authenticode"
	"spore/pki/siglist"
	"spore/test/testpe"
)

func TestImagesAreAddedToTheListOfTheRevoked(t *testing.T) {
	b := bench{t: t, dir: t.TempDir()}
	code, out := b.run("init", b.at("keys"), "--plain")
	require.Zero(t, code, out)
	for name, sections := range map[string]string{"a.efi": ".text", "b.efi": ".other"} {
		require.NoError(t, os.WriteFile(b.at(name), ukitest.Program(0, sections), 0o600))
	}
	list := func() []authenticode.Hash {
		t.Helper()
		kek, err := secureboot.ParseCertificate(b.file("keys/KEK.crt"))
		require.NoError(t, err)
		content, err := secureboot.CheckWrite(b.file("dbx.auth"), "dbx", kek)
		require.NoError(t, err)
		hashes, err := siglist.Hashes(content)
		require.NoError(t, err)
		return hashes
	}
	code, out = b.run("revoke", b.at("a.efi"), "--keys", b.at("keys"), "-o", b.at("dbx.auth"))
	require.Zero(t, code, out)
	require.Contains(t, out, "dbx.auth holds 1 images")
	require.Len(t, list(), 1)
	code, out = b.run("revoke", b.at("b.efi"), b.at("a.efi"), "--keys", b.at("keys"), "-o", b.at("dbx.auth"))
	require.Zero(t, code, out)
	require.Len(t, list(), 2, "what is there stays, and is not there twice")

	before := b.file("dbx.auth")
	code, out = b.run("init", b.at("others"), "--plain")
	require.Zero(t, code, out)
	require.NoError(t, os.WriteFile(b.at("no.efi"), []byte("no program"), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nothing":              {[]string{"revoke"}, exit.Misuse, "requires at least 1 arg"},
		"no keys":              {[]string{"revoke", b.at("a.efi"), "--keys", b.at("none"), "-o", b.at("dbx.auth")}, exit.Failed, "no such file"},
		"a list of other keys": {[]string{"revoke", b.at("a.efi"), "--keys", b.at("others"), "-o", b.at("dbx.auth")}, exit.Failed, "was not made with this key"},
		"no image":             {[]string{"revoke", b.at("none.img"), "--keys", b.at("keys"), "-o", b.at("dbx.auth")}, exit.Failed, "no such file"},
		"no program":           {[]string{"revoke", b.at("no.efi"), "--keys", b.at("keys"), "-o", b.at("dbx.auth")}, exit.Failed, "not a PE file"},
	} {
		code, out := b.run(c.args...)
		require.Equal(t, c.code, code, "%s: %s", name, out)
		require.Contains(t, out, c.want, name)
		require.Equal(t, before, b.file("dbx.auth"), name)
	}
}

func TestNodesAreAskedBeforeAnImageIsRevoked(t *testing.T) {
	b := bench{t: t, dir: t.TempDir()}
	code, out := b.run("init", b.at("keys"), "--plain")
	require.Zero(t, code, out)
	unified := testpe.Program(
		testpe.Section{Name: ".cmdline", Data: []byte("roothash=aa spore.clusterhash=01 ro")}, testpe.Section{Name: ".linux", Data: []byte("kernel")},
	)
	require.NoError(t, os.WriteFile(b.at("old.efi"), unified, 0o600))
	revoke := []string{"revoke", b.at("old.efi"), "--keys", b.at("keys"), "-o", b.at("dbx.auth")}
	code, out = b.run(revoke...)
	require.Zero(t, code, out)
	require.Contains(t, out, "no node was asked what it starts")
	require.NoError(t, os.Remove(b.at("dbx.auth")))
	require.NoError(t, os.WriteFile(b.at("cluster.yaml"), nil, 0o600))

	node := func(name, runs, other string) revocation.Answer {
		var a revocation.Answer
		a.Node = name
		require.NoError(t, json.Unmarshal([]byte(`{"configuration":{"rootHash":"aa","clusterHash":"`+runs+`","other":"`+other+`"}}`), &a.Status))
		return a
	}
	for name, tt := range map[string]struct {
		answers []revocation.Answer
		err     error
		more    []string
		code    int
		want    string
		made    bool
	}{
		"nobody has it":                 {[]revocation.Answer{node("a", "03", "02")}, nil, nil, exit.OK, "holds 1 images", true},
		"somebody's way back":           {[]revocation.Answer{node("a", "03", "01")}, nil, nil, exit.OK, "a would lose its way back", true},
		"a node would have nothing":     {[]revocation.Answer{node("a", "03", "02"), node("b", "01", "")}, nil, nil, exit.Failed, "b would have nothing left to start: push", false},
		"all the same":                  {[]revocation.Answer{node("b", "01", "")}, nil, []string{"--force"}, exit.OK, "b would have nothing left to start: it runs", true},
		"without asking":                {nil, errors.New("nobody is there"), []string{"--offline"}, exit.OK, "no node was asked", true},
		"no way to ask":                 {nil, errors.New("the folder is locked"), nil, exit.Failed, "the folder is locked; or give --offline", false},
		"a node that does not say what": {[]revocation.Answer{{Node: "a", Err: errors.New("timed out")}}, nil, nil, exit.OK, "a does not say what it starts: timed out", true},
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(b.at("dbx.auth"))
			b := b
			b.t, b.starts = t, func() ([]revocation.Answer, error) { return tt.answers, tt.err }
			code, out := b.run(append(revoke[:len(revoke):len(revoke)], tt.more...)...)
			require.Equal(t, tt.code, code, out)
			require.Contains(t, out, tt.want)
			_, err := os.Stat(b.at("dbx.auth"))
			require.Equal(t, tt.made, err == nil)
		})
	}
}
