package pki

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	tree "spore/pki"
	"spore/pki/bundle"
	"spore/pki/seal"
	"spore/pki/vault"
)

const (
	phrase      = "correct horse battery staple"
	otherPhrase = "a passphrase for one bundle"
)

// bench is an operator's desk: a configuration folder, a clock, and all that the commands said.
type bench struct {
	t    *testing.T
	dir  string
	now  time.Time
	said bytes.Buffer
	// typed is what the person answers at the terminal; nothing means there is none.
	typed string
	// workFactor is scrypt's; 0 for the usual one.
	workFactor int
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dir: t.TempDir(), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), workFactor: 10}
	require.NoError(t, os.CopyFS(b.path("configs"), os.DirFS("../../../cluster/testdata/six-nodes")))
	b.write("pass", phrase+"\n")
	b.write("bundlepass", otherPhrase)
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) write(name, text string) string {
	require.NoError(b.t, os.WriteFile(b.path(name), []byte(text), 0o600))
	return b.path(name)
}

func (b *bench) read(name string) string {
	data, err := os.ReadFile(b.path(name))
	require.NoError(b.t, err)
	return string(data)
}

// run runs `spore pki`, or `spore kubeconfig`, and returns its exit code and output; words that begin with @ are paths
// of the bench.
func (b *bench) run(args ...string) (int, string, string) {
	world := outside{
		now: func() time.Time { return b.now }, random: randomSource(b.now), workFactor: b.workFactor,
		ask: func(what string, twice bool) (string, error) {
			if b.typed == "" {
				return "", errors.New("no terminal")
			}
			return b.typed, nil
		},
	}
	cmd := command(world)
	if args[0] == "kubeconfig" {
		cmd, args = kubeconfigCommand(world), args[1:]
	}
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	for i, a := range args {
		if rest, ok := strings.CutPrefix(a, "@"); ok {
			args[i] = b.path(rest)
		}
		if name, file, ok := strings.Cut(a, "=@"); ok {
			args[i] = name + "=" + b.path(file)
		}
	}
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	code := exit.Run(context.Background(), cmd)
	b.said.WriteString(strings.Join(args, " ") + "\n" + out.String() + errs.String())
	return code, out.String(), errs.String()
}

// ok runs a command that must succeed, with the passphrase.
func (b *bench) ok(args ...string) string {
	b.t.Helper()
	code, out, errs := b.run(append(args, "--passphrase-file", "@pass")...)
	require.Equal(b.t, exit.OK, code, errs)
	return out
}

// fails runs a command that must not.
func (b *bench) fails(want int, args ...string) string {
	b.t.Helper()
	code, _, errs := b.run(args...)
	require.Equal(b.t, want, code, errs)
	return errs
}

func (b *bench) tree() *tree.Tree {
	b.t.Helper()
	v, err := vault.Open(b.path("configs.pki"), vault.Keys{Passphrase: func(bool) (string, error) { return phrase, nil }})
	require.NoError(b.t, err)
	defer v.Close()
	return v.Tree
}

func (b *bench) bundle(name, node string) bundle.Bundle {
	b.t.Helper()
	return b.openBundle([]byte(b.read(name)), node)
}

func (b *bench) openBundle(data []byte, node string) bundle.Bundle {
	b.t.Helper()
	p, err := vault.ReadPublic(b.path("configs.pki"))
	require.NoError(b.t, err)
	keys, err := p.SigningKeys()
	require.NoError(b.t, err)
	got, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: p.Cluster, Node: node, Keys: keys})
	require.NoError(b.t, err)
	return got
}

// hides checks that nothing that was said holds a secret of the tree, whole or in good part.
func (b *bench) hides(secrets ...string) {
	b.t.Helper()
	t := b.tree()
	for _, a := range t.Authorities {
		secrets = append(secrets, string(a.Current.Key))
	}
	for _, l := range t.Leaves {
		secrets = append(secrets, string(l.Key))
	}
	for _, s := range t.Secrets {
		secrets = append(secrets, string(s.Value))
	}
	said := b.said.String()
	require.NotContains(b.t, said, "PRIVATE")
	for _, secret := range secrets {
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) >= 8 && !strings.HasPrefix(line, "-----") {
				require.NotContains(b.t, said, line)
				require.NotContains(b.t, said, line[:len(line)/2+4])
			}
		}
	}
}

func TestFromInitToABundleForMQTT(t *testing.T) {
	b := newBench(t)
	out := b.ok("init", "@configs")
	require.Contains(t, out, "configs.pki: 12 authorities, 38 certificates, 35 secrets\nencrypted with the passphrase")
	out = b.ok("bundle", "@configs", "--node", "edge-01", "-o", "@edge-01.bundle")
	require.Contains(t, out, "bundle 1 of node edge-01\nnot encrypted: everybody who has this file has the node's secrets")
	st, err := os.Stat(b.path("edge-01.bundle"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
	got := b.bundle("edge-01.bundle", "edge-01")
	for _, name := range []string{"mqtt-password-sensor", "mqtt-password-operator", "mqtt-tls-certificate", "mqtt-tls-key"} {
		require.NotEmpty(t, got.Secrets[name], name)
	}
	b.hides()
}

func TestNoCommandSaysASecret(t *testing.T) {
	b := newBench(t)
	b.write("sensor", "given by a person\n")
	b.ok("init", "@configs", "--secret", "mqtt-password-sensor=@sensor")
	b.ok("show", "@configs")
	b.ok("show", "@configs", "--json")
	b.ok("bundle", "@configs", "--all", "-o", "@bundles")
	b.ok("export", "@configs", "-o", "@out")
	b.ok("export", "@configs", "-o", "@out", "--name", "mqtt-password-sensor", "--name", "node-reader", "--name", "etcd-encryption-key", "--name", "mqtt-server/edge-01")
	require.Equal(t, "given by a person", b.read("out/mqtt-password-sensor"))
	b.now = b.now.Add(300 * 24 * time.Hour)
	b.ok("renew", "@configs")
	b.ok("renew", "@configs", "--all")
	for _, step := range [][]string{{}, {"--switch"}} {
		b.ok(append([]string{"rotate-ca", "mqtt", "@configs"}, step...)...)
	}
	b.fails(exit.Failed, "rotate-ca", "mqtt", "@configs", "--finish", "--passphrase-file", "@pass")
	b.ok("bundle", "@configs", "--node", "edge-01", "-o", "@edge-01.bundle.age", "--encrypt", "--bundle-passphrase-file", "@bundlepass")
	require.Contains(t, b.fails(exit.Failed, "rotate-ca", "mqtt", "@configs", "--finish", "--passphrase-file", "@pass"), "the last bundle of master-01 stands on the previous mqtt")
	b.ok("bundle", "@configs", "--node", "master-01", "-o", "@master-01.bundle")
	b.ok("rotate-ca", "mqtt", "@configs", "--finish")

	// Errors say no more.
	b.write("bad", "given\x00badly")
	b.fails(exit.Failed, "renew", "@configs", "--passphrase-file", "@pass", "--secret", "mqtt-password-sensor=@bad")
	b.fails(exit.Failed, "renew", "@configs", "--passphrase-file", "@bundlepass")
	b.fails(exit.Failed, "export", "@configs", "-o", "@out", "--passphrase-file", "@pass", "--name", "nonsense")
	b.fails(exit.Failed, "show", "@configs", "--passphrase-file", "@configs/cluster.yaml")
	b.hides("given by a person", "given\x00badly", phrase, otherPhrase)
}

func TestAnEncryptedBundleOpensWithItsPassphrase(t *testing.T) {
	b := newBench(t)
	b.ok("init", "@configs")
	b.ok("bundle", "@configs", "--node", "edge-01", "--encrypt", "--bundle-passphrase-file", "@bundlepass", "-o", "@e.age")
	sealed := b.read("e.age")
	require.True(t, seal.IsSealed([]byte(sealed)))
	data, err := seal.OpenOnNode([]byte(sealed), otherPhrase, bundle.MaxSize)
	require.NoError(t, err)
	require.NotEmpty(t, b.openBundle(data, "edge-01").Secrets)
	require.Contains(t, b.fails(exit.Failed, "bundle", "@configs", "--passphrase-file", "@pass", "--node", "edge-01", "--encrypt", "--bundle-passphrase-file", b.write("short", "abc")), "take at least 12")
}

func TestANodeCanPayForAnEncryptedBundle(t *testing.T) {
	b := newBench(t)
	b.workFactor = 0 // what people get
	b.ok("init", "@configs", "--plain")
	b.ok("bundle", "@configs", "--node", "edge-01", "--encrypt", "--bundle-passphrase-file", "@bundlepass", "-o", "@e.age")
	data, err := seal.OpenOnNode([]byte(b.read("e.age")), otherPhrase, bundle.MaxSize)
	require.NoError(t, err)
	require.NotEmpty(t, b.openBundle(data, "edge-01").Secrets)
}

func TestABundleRenewsWhatIsDueAndIsRecorded(t *testing.T) {
	b := newBench(t)
	b.ok("init", "@configs")
	b.now = b.now.Add(250 * 24 * time.Hour)
	code, _, errs := b.run("bundle", "@configs", "--node", "edge-01", "-o", "@edge.bundle", "--passphrase-file", "@pass")
	require.Equal(t, exit.OK, code)
	require.Contains(t, errs, "renewed  mqtt-server/edge-01: two thirds of its life were over\n")
	got := b.bundle("edge.bundle", "edge-01")
	require.Equal(t, b.tree().Issued["edge-01"].Serial, got.Serial)
	require.Equal(t, b.now, got.Issued)

	// An address that changed reaches the next bundle by itself.
	text := strings.Replace(b.read("configs/cluster.yaml"), "10.77.0.16]\n    roles", "10.77.0.17]\n    roles", 1)
	b.write("configs/cluster.yaml", strings.Replace(text, "nameservers: [10.77.0.16]", "nameservers: [10.77.0.17]", 1))
	_, _, errs = b.run("bundle", "@configs", "--node", "edge-01", "-o", "@edge.bundle", "--passphrase-file", "@pass")
	require.Contains(t, errs, "replaced mqtt-server/edge-01: its names or addresses changed\n")
}

func TestShowAsJSON(t *testing.T) {
	b := newBench(t)
	b.ok("init", "@configs")
	var lines []tree.Line
	require.NoError(t, json.Unmarshal([]byte(b.ok("show", "@configs", "--json")), &lines))
	require.Equal(t, "root", lines[0].Name)
	require.Equal(t, b.now.Add(tree.AuthorityLife), *lines[0].Expires)
	table := b.ok("show", "@configs")
	require.Equal(t, len(lines)+1, strings.Count(table, "\n"))
	require.Regexp(t, `(?m)^certificate +mqtt-server +edge-01 +mqtt +- +2026-10-30 +2027-03-01 +ok$`, table)
	require.Regexp(t, `(?m)^bundle +bundle +edge-01 +- +- +- +- +missing$`, table)
}

func TestExportOfThePublicHalfNeedsNoPassphrase(t *testing.T) {
	b := newBench(t)
	b.ok("init", "@configs")
	code, out, errs := b.run("export", "@configs", "-o", "@out")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, 12, strings.Count(out, "\n"))
	require.Contains(t, b.read("out/mqtt.crt"), "BEGIN CERTIFICATE")
	require.Contains(t, b.read("out/signing.pub"), "BEGIN PUBLIC KEY")
	require.Contains(t, b.fails(exit.Failed, "export", "@configs", "-o", "@out", "--name", "node-reader"), "no terminal")
}

func TestAFolderForRecipients(t *testing.T) {
	b := newBench(t)
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	b.write("identity", id.String()+"\n")
	code, out, errs := b.run("init", "@configs", "--recipient", id.Recipient().String())
	require.Equal(t, exit.OK, code, errs)
	require.Contains(t, out, "encrypted for 1 recipient")
	require.Contains(t, b.fails(exit.Misuse, "show", "@configs"), "name your age identity file with --identity")
	code, _, errs = b.run("show", "@configs", "--identity", "@identity")
	require.Equal(t, exit.OK, code, errs)
	require.NotContains(t, b.said.String(), id.String())
}

// openssl makes a root as a company would.
func (b *bench) openssl(name string) {
	b.t.Helper()
	out, err := exec.Command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384", "-nodes", "-days", "9999",
		"-subj", "/CN=Company "+name, "-keyout", b.path(name+".key"), "-out", b.path(name+".crt")).CombinedOutput()
	require.NoError(b.t, err, "run make deps: %s", out)
	b.now = time.Now().Add(time.Minute)
}

func TestAnOwnRootIsReadWhereItIs(t *testing.T) {
	b := newBench(t)
	b.openssl("one")
	b.openssl("two")
	b.ok("init", "@configs", "--root-certificate", "@one.crt", "--root-key", "@one.key")
	require.Contains(t, b.read("configs.pki/pki.yaml"), "certificate: "+b.path("one.crt"))
	require.Empty(t, b.tree().Authorities["root"].Current.Key)
	require.NoError(t, os.Rename(b.path("one.key"), b.path("away.key")))
	b.ok("bundle", "@configs", "--node", "edge-01", "-o", "@e.bundle")
	require.Contains(t, b.fails(exit.Failed, "rotate-ca", "mqtt", "@configs", "--passphrase-file", "@pass"), "the key of your own root is needed to sign it")

	// Another root takes its place, or does not.
	b.ok("rotate-ca", "root", "@configs", "--root-certificate", "@two.crt", "--root-key", "@two.key")
	b.ok("rotate-ca", "root", "@configs", "--withdraw")
	b.ok("renew", "@configs", "--root-certificate", "@one.crt")
	b.ok("rotate-ca", "root", "@configs", "--root-certificate", "@two.crt", "--root-key", "@two.key")
	require.Contains(t, b.ok("rotate-ca", "root", "@configs", "--switch"), "next: make the bundles of edge-01, ")
	b.ok("bundle", "@configs", "--node", "edge-01", "-o", "@e.bundle")
	b.ok("rotate-ca", "root", "@configs", "--finish")
	require.Equal(t, b.read("two.crt"), b.tree().Authorities["root"].Current.Certificate)
	b.hides(b.read("away.key"), b.read("two.key"))
}

func TestAPlainFolderSaysSo(t *testing.T) {
	b := newBench(t)
	code, out, errs := b.run("init", "@configs", "--plain", "--dir", "@elsewhere")
	require.Equal(t, exit.OK, code, errs)
	require.Contains(t, out, "NOT encrypted: everybody who can read the folder has every key of the cluster")
	require.FileExists(t, b.path("elsewhere/tree.json"))
	code, _, errs = b.run("show", "@configs", "--dir", "@elsewhere")
	require.Equal(t, exit.OK, code, errs)
}

func TestThePassphraseIsAskedForAtTheTerminal(t *testing.T) {
	b := newBench(t)
	require.Contains(t, b.fails(exit.Failed, "init", "@configs"), "no terminal")
	require.NoDirExists(t, b.path("configs.pki"), "nothing is left of what failed")
	b.typed = phrase
	code, _, errs := b.run("init", "@configs")
	require.Equal(t, exit.OK, code, errs)
	b.ok("show", "@configs")
}

func TestWrongUsage(t *testing.T) {
	b := newBench(t)
	for _, args := range [][]string{
		{"init", "a", "b"}, {"init", "--plain", "--recipient", "age1"}, {"init", "--nonsense"}, {"bundle", "@configs"}, {"bundle", "@configs", "--all", "--node", "x"},
		{"bundle", "@configs", "--node", "x", "--bundle-passphrase-file", "x"}, {"rotate-ca"}, {"rotate-ca", "mqtt", "@configs", "--switch", "--finish"},
		{"rotate-ca", "mqtt", "@configs", "--root-certificate", "x"}, {"init", "@configs", "--root-key", "x"}, {"nonsense"},
	} {
		code, _, errs := b.run(args...)
		require.Equal(t, exit.Misuse, code, "%v: %s", args, errs)
	}
}

func TestWhatCannotBeDone(t *testing.T) {
	b := newBench(t)
	require.Contains(t, b.fails(exit.Failed, "show", "@configs"), "make the keys with `spore pki init`")
	b.ok("init", "@configs")
	require.Contains(t, b.fails(exit.Failed, "init", "@configs", "--passphrase-file", "@pass"), "keys are never overwritten")
	require.Contains(t, b.fails(exit.Failed, "bundle", "@configs", "--passphrase-file", "@pass", "--node", "edge-99"), `cluster.yaml has no node "edge-99"`)
	require.Contains(t, b.fails(exit.Failed, "show", "@configs", "--passphrase-file", "@nowhere"), "no such file")
	require.Contains(t, b.fails(exit.Failed, "show", "@nowhere"), "spore init")
	b.write("configs/cluster.yaml", strings.Replace(b.read("configs/cluster.yaml"), "0b9c4f62-", "0b9c4f63-", 1))
	require.Contains(t, b.fails(exit.Failed, "bundle", "@configs", "--passphrase-file", "@pass", "--node", "edge-01"), "the keys belong to the cluster plant with the id 0b9c4f62")
}

func TestEveryCommandHasAnExample(t *testing.T) {
	root := Command()
	require.Len(t, root.Commands(), 6)
	for _, c := range root.Commands() {
		require.Contains(t, c.Example, "spore pki "+c.Name())
		require.NotEmpty(t, c.Long)
	}
}
