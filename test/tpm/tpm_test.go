//go:build integration

// Package tpm lets an emulated TPM (swtpm) judge the policy that encrypted state is bound to: what image builds sign,
// what the agent computes, and what systemd-cryptenroll writes have to be one and the same, and every other start has
// to stay outside.
package tpm

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/luks"
	"spore/agent/tpm"
	"spore/builder/pcr"
)

// machine is one with an emulated TPM.
type machine struct {
	t    *testing.T
	dir  string
	port int
	stop func()
}

// newMachine makes a machine with a new TPM, which is on.
func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir()}
	m.start()
	t.Cleanup(func() { m.stop() })
	return m
}

// start switches the machine on: the TPM is the same, and its registers are zero.
func (m *machine) start() {
	m.t.Helper()
	for m.port == 0 { // Two ports that follow each other, as the tools want it.
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(m.t, err)
		port := l.Addr().(*net.TCPAddr).Port
		if next, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1)); err == nil {
			next.Close()
			m.port = port
		}
		l.Close()
	}
	cmd := exec.Command("swtpm", "socket", "--tpm2", "--tpmstate", "dir="+m.dir, "--server", fmt.Sprintf("type=tcp,port=%d", m.port),
		"--ctrl", fmt.Sprintf("type=tcp,port=%d", m.port+1), "--flags", "not-need-init,startup-clear")
	require.NoError(m.t, cmd.Start(), "run make deps")
	m.stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	require.Eventually(m.t, func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", m.port+1))
		if err == nil {
			c.Close()
		}
		return err == nil
	}, 10*time.Second, 20*time.Millisecond)
}

// boot switches the machine off and on, and measures what a start is.
func (m *machine) boot(s start) {
	m.t.Helper()
	m.ok("shutdown", "-c") // After many power cuts a TPM locks itself.
	m.stop()
	m.start()
	m.extend(tpm.Keys, s.keys)
	m.extend(tpm.Image, s.image)
	if s.words != "" {
		m.extend(tpm.Words, s.words)
	}
	if s.later {
		m.extend(tpm.Image, tpm.StateOpen)
	}
}

// extend is the agent's own.
func (m *machine) extend(register int, what string) {
	m.t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", m.port))
	require.NoError(m.t, err)
	defer c.Close()
	require.NoError(m.t, tpm.Extend(c, register, []byte(what)))
}

func (m *machine) run(name string, args ...string) (string, error) {
	m.t.Helper()
	cmd := exec.Command("tpm2_"+name, args...)
	cmd.Dir, cmd.Env = m.dir, append(os.Environ(), fmt.Sprintf("TPM2TOOLS_TCTI=swtpm:host=127.0.0.1,port=%d", m.port))
	out, err := cmd.CombinedOutput()
	require.NotErrorIs(m.t, err, exec.ErrNotFound, "run make deps")
	return string(out), err
}

func (m *machine) ok(name string, args ...string) string {
	m.t.Helper()
	out, err := m.run(name, args...)
	require.NoError(m.t, err, out)
	return out
}

func (m *machine) write(name string, data []byte) string {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	require.NoError(m.t, os.WriteFile(path, data, 0o600))
	return path
}

// start is what is measured of one.
type start struct {
	// keys is Secure Boot with its keys, image what is started, words what comes from outside.
	keys, image, words string
	// later says that the state is open by then.
	later bool
}

// after is what is in a register after one measurement.
func after(what string) pcr.Value {
	sum := sha256.Sum256([]byte(what))
	return sha256.Sum256(append(make([]byte, 32), sum[:]...))
}

// newKey makes a key that signs PCR 11.
func newKey(t *testing.T) (*rsa.PrivateKey, *pcr.Signer) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	s, err := pcr.NewSigner(key)
	require.NoError(t, err)
	return key, s
}

// signatures are those of the section .pcrsig of an image.
func signatures(t *testing.T, s *pcr.Signer, image string) []pcr.Signed {
	t.Helper()
	text, err := s.Sign(after(image), pcr.Phases)
	require.NoError(t, err)
	var list struct {
		SHA256 []pcr.Signed `json:"sha256"`
	}
	require.NoError(t, json.Unmarshal(text, &list))
	return list.SHA256
}

// opens tells whether the TPM opens the sealed secret with the first signature of an image.
func (m *machine) opens(public []byte, signed pcr.Signed) bool {
	m.t.Helper()
	policy, err := hex.DecodeString(signed.Policy)
	require.NoError(m.t, err)
	m.write("pcr.pub", public)
	m.write("policy", policy)
	m.write("signature", signed.Signature)
	for _, context := range []string{"-t", "-l", "-s"} { // nothing is left over of the try before
		_, _ = m.run("flushcontext", context)
	}
	m.ok("loadexternal", "-C", "o", "-G", "rsa", "-u", "pcr.pub", "-c", "key", "-n", "name")
	if _, err := m.run("verifysignature", "-c", "key", "-g", "sha256", "-f", "rsassa", "-m", "policy", "-s", "signature", "-t", "ticket"); err != nil {
		return false
	}
	m.ok("flushcontext", "-t")
	m.ok("createprimary", "-C", "o", "-c", "primary")
	m.ok("flushcontext", "-t")
	m.ok("load", "-C", "primary", "-u", "sealed.pub", "-r", "sealed.priv", "-c", "sealed")
	m.ok("flushcontext", "-t")
	m.ok("startauthsession", "-S", "session", "--policy-session")
	defer m.ok("flushcontext", "session")
	m.ok("policypcr", "-S", "session", "-l", fmt.Sprintf("sha256:%d", tpm.Image))
	if _, err := m.run("policyauthorize", "-S", "session", "-i", "policy", "-n", "name", "-t", "ticket"); err != nil {
		return false
	}
	m.ok("policypcr", "-S", "session", "-l", fmt.Sprintf("sha256:%d,%d", tpm.Keys, tpm.Words))
	out, err := m.run("unseal", "-c", "sealed", "-p", "session:session")
	return err == nil && out == "the key of the state"
}

// seal seals a secret to a policy.
func (m *machine) seal(p tpm.Policy) {
	m.t.Helper()
	digest := p.Digest()
	m.write("digest", digest[:])
	m.write("secret", []byte("the key of the state"))
	m.ok("createprimary", "-C", "o", "-c", "primary")
	m.ok("create", "-C", "primary", "-L", "digest", "-i", "secret", "-u", "sealed.pub", "-r", "sealed.priv", "-a", "fixedtpm|fixedparent|noda")
	m.ok("flushcontext", "-t")
}

const (
	ours, off   = "Secure Boot with our keys", "Secure Boot is off"
	image, next = "an image", "its update"
)

func TestTheTPMKnowsWhatWasStarted(t *testing.T) {
	key, signer := newKey(t)
	public, err := signer.PublicKey()
	require.NoError(t, err)
	_, stranger := newKey(t)
	foreign, err := stranger.PublicKey()
	require.NoError(t, err)
	m := newMachine(t)
	m.seal(tpm.Policy{Signer: &key.PublicKey, Keys: tpm.Digest(after(ours))})
	for name, c := range map[string]struct {
		start  start
		signer *pcr.Signer
		public []byte
		signed string
		want   bool
	}{
		"the image":                                 {start{keys: ours, image: image}, signer, public, image, true},
		"its update, which the same key signed":     {start{keys: ours, image: next}, signer, public, next, true},
		"a stick that measures what the image does": {start{keys: off, image: image}, signer, public, image, false},
		"the image without Secure Boot":             {start{keys: off, image: image}, signer, public, image, false},
		"another key let it start":                  {start{keys: "Secure Boot with Microsoft's", image: image}, signer, public, image, false},
		"words from outside, such as spore.console": {start{keys: ours, image: image, words: "spore.console"}, signer, public, image, false},
		"a program of the running node":             {start{keys: ours, image: image, later: true}, signer, public, image, false},
		"another image with its signature":          {start{keys: ours, image: "another"}, signer, public, image, false},
		"another image that another key signed":     {start{keys: ours, image: "another"}, stranger, foreign, "another", false},
	} {
		t.Run(name, func(t *testing.T) {
			m.t = t
			m.boot(c.start)
			require.Equal(t, c.want, m.opens(c.public, signatures(t, c.signer, c.signed)[0]))
		})
	}
}

func TestASlotForTheNextKeysOpensThemAndNotTheOnesBefore(t *testing.T) {
	key, signer := newKey(t)
	public, err := signer.PublicKey()
	require.NoError(t, err)
	m := newMachine(t)
	m.seal(tpm.Policy{Signer: &key.PublicKey, Keys: tpm.Digest(after("our keys, and a longer dbx"))})
	m.boot(start{keys: ours, image: image})
	require.False(t, m.opens(public, signatures(t, signer, image)[0]))
	m.boot(start{keys: "our keys, and a longer dbx", image: image})
	require.True(t, m.opens(public, signatures(t, signer, image)[0]))
}

// systemd-cryptenroll is the other judge: the agent knows which of the tokens that it wrote fits a start.
func TestSystemdWritesThePolicyThatTheAgentExpects(t *testing.T) {
	key, signer := newKey(t)
	stranger, _ := newKey(t)
	public, err := signer.PublicKey()
	require.NoError(t, err)
	m := newMachine(t)
	m.boot(start{keys: ours, image: image})
	volume, recovery, pub := filepath.Join(m.dir, "volume"), m.write("recovery", []byte("cbdefghi")), m.write("pcr.pub", public)
	require.NoError(t, os.WriteFile(volume, nil, 0o600))
	require.NoError(t, os.Truncate(volume, 24<<20))
	command := func(env []string, name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %v: %s", name, args, out)
	}
	command(nil, "cryptsetup", "luksFormat", "--type", "luks2", "--batch-mode", "--disable-locks", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", recovery, volume)
	for _, pin := range []bool{false, true} {
		args := []string{
			fmt.Sprintf("--tpm2-device=swtpm:host=127.0.0.1,port=%d", m.port), "--tpm2-pcrs=7+12", "--tpm2-public-key=" + pub, "--tpm2-public-key-pcrs=11",
			"--wipe-slot=tpm2", volume,
		}
		env := []string{"PASSWORD=cbdefghi", "NEWPIN=482913"} // Debian 12's takes a key no other way.
		if pin {
			args = append([]string{"--tpm2-with-pin=yes"}, args...)
		}
		command(env, "systemd-cryptenroll", args...)
		f, err := os.Open(volume)
		require.NoError(t, err)
		header, err := luks.Read(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.Len(t, header.Tokens, 1)
		token := header.Tokens[0]
		require.True(t, tpm.Policy{Signer: &key.PublicKey, Keys: tpm.Digest(after(ours)), PIN: pin}.Is(token.Policy), token.Policy)
		for _, other := range []tpm.Policy{
			{Signer: &key.PublicKey, Keys: tpm.Digest(after(ours)), PIN: !pin}, {Signer: &key.PublicKey, Keys: tpm.Digest(after(off)), PIN: pin},
			{Signer: &stranger.PublicKey, Keys: tpm.Digest(after(ours)), PIN: pin},
		} {
			require.False(t, other.Is(token.Policy))
		}
		require.Equal(t, pin, token.PIN)
		require.Equal(t, []int{7, 12}, token.PCRs)
		require.Equal(t, strings.TrimSpace(string(public)), strings.TrimSpace(string(token.PublicKey)))
	}
}

// The words of builds and of the agent are the same.
func TestThePhaseHasOneName(t *testing.T) {
	require.Equal(t, pcr.StateOpen, tpm.StateOpen)
	require.Equal(t, pcr.Register, tpm.Image)
	require.Equal(t, tpm.Digest(after("x").Enter(pcr.StateOpen)), tpm.Digest(after("x")).Extend(sha256.Sum256([]byte(tpm.StateOpen))))
}
