package sealed

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const machineID = "0123456789abcdef0123456789abcdef"

// machine stands for systemd-creds: what it encrypts begins with the id of the key's kind, as systemd's does.
type machine struct {
	// tpm is the state of the TPM: "", "works", "fails" or "lies" (opens to something else).
	tpm   string
	calls []string
}

func (m *machine) creds(_ context.Context, input []byte, args ...string) ([]byte, error) {
	m.calls = append(m.calls, strings.Join(args, " "))
	if args[0] == "decrypt" {
		raw, err := base64.StdEncoding.DecodeString(string(input))
		if err != nil || len(raw) < 17 {
			return nil, errors.New("bad message")
		}
		name, data, _ := bytes.Cut(raw[16:], []byte{0})
		switch {
		case kinds[hex.EncodeToString(raw[:16])] == TPM && m.tpm == "":
			return nil, errors.New("no TPM")
		case args[1] != "--name="+string(name):
			return nil, errors.New("embedded credential name does not match")
		case m.tpm == "lies":
			return []byte("else"), nil
		}
		return data, nil
	}
	for id, kind := range kinds {
		if args[2] != "--with-key="+kind {
			continue
		}
		if kind == TPM && m.tpm == "fails" {
			return nil, errors.New("TPM in lockout")
		}
		raw, _ := hex.DecodeString(id)
		raw = append(append(raw, strings.TrimPrefix(args[1], "--name=")+"\x00"...), input...)
		return []byte(base64.StdEncoding.EncodeToString(raw)), nil
	}
	return nil, errors.New("no such key")
}

func vault(t *testing.T, m *machine) (Vault, string, *[]string) {
	t.Helper()
	dir := t.TempDir()
	said := &[]string{}
	id, err := hex.DecodeString(machineID)
	require.NoError(t, err)
	of := appSpecific(id, credentialApp)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), append(of[:], "key"...), 0o400))
	return Vault{
		Creds: m.creds, HasTPM: func(context.Context) bool { return m.tpm != "" }, AwaitTPM: func(context.Context) {},
		MachineID: machineID + "\n", HostKey: filepath.Join(dir, "key"), Say: func(s string) { *said = append(*said, s) },
	}, filepath.Join(dir, "x", "bundle.cred"), said
}

func TestWhatIsSealedIsOpened(t *testing.T) {
	for name, tc := range map[string]struct{ tpm, kind, said string }{
		"to the TPM where there is one":               {"works", TPM, ""},
		"to the host key where there is none":         {"", Host, ""},
		"to the host key where the TPM fails":         {"fails", Host, "the TPM does not seal"},
		"a TPM that gives back something else is not": {"lies", "", "is not what was written"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{tpm: tc.tpm}
			v, path, said := vault(t, m)
			kind, err := v.Seal(context.Background(), path, "n", []byte("secret"))
			require.Contains(t, strings.Join(*said, ""), tc.said)
			if tc.kind == "" {
				require.ErrorContains(t, err, tc.said)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.kind, kind)
			data, kind, err := v.Open(context.Background(), path, "n")
			require.NoError(t, err)
			require.Equal(t, "secret", string(data))
			require.Equal(t, tc.kind, kind)
			st, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o600), st.Mode())
			if tc.kind == TPM {
				require.Equal(t, "encrypt --name=n --with-key=tpm2 --tpm2-pcrs= - -", m.calls[0], "an update must not lock the node out")
			}
			_, _, err = v.Open(context.Background(), path, "other")
			require.ErrorContains(t, err, "does not open it")
		})
	}
}

func TestWhatCannotBeOpenedIsSaidPlainly(t *testing.T) {
	ctx := context.Background()
	t.Run("nothing is there", func(t *testing.T) {
		v, path, _ := vault(t, &machine{})
		_, _, err := v.Open(ctx, path, "n")
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
	t.Run("the TPM was cleared", func(t *testing.T) {
		m := &machine{tpm: "works"}
		v, path, _ := vault(t, m)
		_, err := v.Seal(ctx, path, "n", []byte("secret"))
		require.NoError(t, err)
		m.tpm = ""
		_, kind, err := v.Open(ctx, path, "n")
		require.ErrorContains(t, err, "this machine's TPM does not open it (was it cleared, or the disk moved?)")
		require.Equal(t, TPM, kind)
		require.FileExists(t, path)
	})
	t.Run("the disk was moved: systemd-creds, which would delete the key, is not run", func(t *testing.T) {
		m := &machine{}
		v, path, _ := vault(t, m)
		_, err := v.Seal(ctx, path, "n", []byte("secret"))
		require.NoError(t, err)
		calls := len(m.calls)
		v.MachineID = strings.Repeat("f", 32)
		_, _, err = v.Open(ctx, path, "n")
		require.ErrorContains(t, err, "it was sealed on another machine")
		require.Len(t, m.calls, calls)
		v.MachineID = machineID
		_, _, err = v.Open(ctx, path, "n")
		require.NoError(t, err, "it goes back, and all is well")
	})
	t.Run("the host key is gone", func(t *testing.T) {
		v, path, _ := vault(t, &machine{})
		_, err := v.Seal(ctx, path, "n", []byte("secret"))
		require.NoError(t, err)
		require.NoError(t, os.Remove(v.HostKey))
		_, _, err = v.Open(ctx, path, "n")
		require.ErrorContains(t, err, "is gone")
	})
	t.Run("the file is damaged", func(t *testing.T) {
		v, path, _ := vault(t, &machine{})
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		for _, text := range []string{"", "x", strings.Repeat("A", 100), "!!!!" + strings.Repeat("A", 100)} {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			_, _, err := v.Open(ctx, path, "n")
			require.ErrorContains(t, err, "it is damaged", text)
		}
	})
	t.Run("a machine that is another at each boot keeps nothing by the host key", func(t *testing.T) {
		v, path, _ := vault(t, &machine{})
		v.Fleeting = true
		_, err := v.Seal(ctx, path, "n", []byte("secret"))
		require.ErrorContains(t, err, "nothing of this machine is the same at each boot")
		require.NoFileExists(t, path)
	})
}

func TestWhatAWriteThatWasCutLeftIsRemoved(t *testing.T) {
	v, path, _ := vault(t, &machine{})
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	half := filepath.Join(filepath.Dir(path), ".bundle.cred-123")
	require.NoError(t, os.WriteFile(half, []byte("x"), 0o600))
	_, err := v.Seal(context.Background(), path, "n", []byte("secret"))
	require.NoError(t, err)
	require.NoFileExists(t, half)
}

// The second id is what systemd-id128(1) says: machine-id --app-specific=d3acecba0dad4cdfb8c9381528936c58.
func TestTheHostKeysMachineIsSystemds(t *testing.T) {
	id, err := hex.DecodeString("3d1219c7c4c5404aaa1f6d2a48adfda4")
	require.NoError(t, err)
	got := appSpecific(id, credentialApp)
	require.Equal(t, "89f70f6d90b84795b60b94afac71e928", hex.EncodeToString(got[:]))
}

func FuzzKindOf(f *testing.F) {
	f.Add([]byte("Whxqht+dQJax1aZeCGLxmiAAAAABAAAADAAAABAAAADlbjFEXZfsUK9eadwA"))
	f.Add([]byte("DHzAexF2RZGc\nSwvqCLwg/iAAAAABAAAADAAAABAA"))
	f.Fuzz(func(t *testing.T, text []byte) {
		kind, err := kindOf(text)
		require.Equal(t, err == nil, kind == Host || kind == TPM)
	})
}
