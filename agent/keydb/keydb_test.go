package keydb

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"spore/pki/authenticode"
	"spore/pki/siglist"
	"spore/test/testpe"
)

// plain is a program that nobody signed.
var plain = testpe.Program(testpe.Section{Name: ".text", Data: bytes.Repeat([]byte("a program "), 300)})

// certificates is a signature list of each certificate.
func certificates(list ...*x509.Certificate) []byte {
	var entries []siglist.Entry
	for _, c := range list {
		entries = append(entries, siglist.Entry{Owner: uuid.UUID{1}, Certificate: c})
	}
	return siglist.EncodeCertificates(entries)
}

func programs(list ...authenticode.Hash) []byte { return siglist.EncodeHashes(uuid.UUID{1}, list) }

// signedParts is a list of EFI_CERT_X509_SHA256: the hash of what was signed of a certificate, and no time.
func signedParts(c *x509.Certificate) []byte {
	sum := sha256.Sum256(c.RawTBSCertificate)
	le := binary.LittleEndian
	out := siglist.GUID(uuid.MustParse("3bd2a492-96c0-4079-b420-fcf98ef103ed"))
	out = le.AppendUint32(le.AppendUint32(le.AppendUint32(out, 28+64), 0), 64)
	return append(append(append(out, make([]byte, 16)...), sum[:]...), make([]byte, 16)...)
}

// emptyList has no entry, and so no size of one.
func emptyList() []byte {
	out := siglist.GUID(uuid.MustParse("c1c41626-504c-4092-aca9-41f936934328"))
	return append(binary.LittleEndian.AppendUint32(out, 28), make([]byte, 8)...)
}

// vars is a directory of efivarfs.
func vars(t testing.TB, db, dbx []byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string][]byte{"db": db, "dbx": dbx} {
		if content != nil {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name+suffix), append([]byte{0x27, 0, 0, 0}, content...), 0o600))
		}
	}
	return dir
}

func TestWhatFirmwareStarts(t *testing.T) {
	plant, other := testpe.Signer("the plant").Certificate, testpe.Signer("somebody").Certificate
	root, leaf := testpe.Issued("the authority", "the plant by an authority")
	ours := testpe.Sign(plain, "the plant")
	issued, err := leaf.SignPE(plain)
	require.NoError(t, err)
	hash, err := authenticode.HashOf(bytes.NewReader(plain), int64(len(plain)))
	require.NoError(t, err)
	damaged := bytes.Clone(ours)
	damaged[len(damaged)-20]++
	changed := bytes.Clone(ours)
	changed[1100]++
	unread := certificates(other)
	unread[28+16+10] ^= 0xff
	for name, tt := range map[string]struct {
		program, db, dbx []byte
		// want is what the error says; empty for none.
		want string
	}{
		"signed by a certificate of db":                    {ours, certificates(other, plant), nil, ""},
		"signed by whom an authority of db issued":         {issued, certificates(root), nil, ""},
		"its hash is in db":                                {testpe.Sign(plain, "somebody"), append(certificates(plant), programs(hash)...), nil, ""},
		"not signed, and its hash is in db":                {plain, programs(hash), nil, ""},
		"db has a list without entries":                    {ours, append(emptyList(), certificates(plant)...), emptyList(), ""},
		"another entry of db cannot be read":               {ours, append(bytes.Clone(unread), certificates(plant)...), nil, ""},
		"dbx has others":                                   {ours, certificates(plant), append(certificates(other), programs(authenticode.Hash{1})...), ""},
		"nobody knows what db has":                         {ours, nil, nil, ""},
		"not signed":                                       {plain, certificates(plant), nil, "it is not signed"},
		"signed by another":                                {ours, certificates(other, root), nil, `signed by "CN=the plant" (SHA-256 `},
		"signed by an authority that db does not have":     {issued, certificates(plant), nil, `signed by "CN=the plant by an authority"`},
		"by the leaf's name alone":                         {ours, certificates(leaf.Certificate), nil, "has neither that certificate nor one of its issuers in its db"},
		"its certificate is in dbx":                        {ours, certificates(plant), certificates(plant), `through "CN=the plant" (SHA-256 `},
		"its issuer is in dbx":                             {issued, certificates(leaf.Certificate), certificates(root), `through "CN=the authority"`},
		"the hash of its certificate is in dbx":            {ours, certificates(plant), signedParts(plant), "firmware forbids (dbx)"},
		"its hash is in dbx":                               {ours, certificates(plant), programs(authenticode.Hash{1}, hash), "it was revoked"},
		"its hash is in both":                              {ours, programs(hash), programs(hash), "it was revoked"},
		"its hash is in dbx, and nobody knows what db has": {ours, nil, programs(hash), "it was revoked"},
		"the signature is damaged":                         {damaged, certificates(plant), nil, "its signature does not hold"},
		"the program was changed":                          {changed, certificates(plant), nil, "its signature does not hold: the program was changed"},
		"no program":                                       {[]byte("MZ none"), certificates(plant), nil, "not a PE file"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Read(vars(t, tt.db, tt.dbx))
			require.NoError(t, err)
			_, err = l.Check(bytes.NewReader(tt.program), int64(len(tt.program)))
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestWhoSignedIsTold(t *testing.T) {
	l, err := Read(vars(t, certificates(testpe.Signer("the plant").Certificate), nil))
	require.NoError(t, err)
	ours := testpe.Sign(plain, "the plant")
	have, err := l.Check(bytes.NewReader(ours), int64(len(ours)))
	require.NoError(t, err)
	require.Len(t, have, 1)
	require.True(t, have[0].Equal(testpe.Signer("the plant").Certificate))
}

func TestListsOfTheFirmware(t *testing.T) {
	plant := testpe.Signer("the plant").Certificate
	l, err := Read(t.TempDir())
	require.NoError(t, err)
	require.True(t, l.Allowed.Empty() && l.Forbidden.Empty(), "a firmware without keys")

	dir := vars(t, certificates(plant), nil)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "dbx"+suffix), nil, 0o600))
	l, err = Read(dir)
	require.NoError(t, err, "efivarfs has a file without content where the firmware refused to make the variable")
	require.True(t, l.Allowed.Has(plant))

	for name, bad := range map[string][]byte{
		"cut in the attributes": {1},
		"cut":                   append([]byte{7, 0, 0, 0}, certificates(plant)[:40]...),
		"too long":              make([]byte, siglist.MaxSize+5),
		"an odd hash of a certificate": func() []byte {
			b := signedParts(plant)
			binary.LittleEndian.PutUint32(b[16:], 28+63)
			binary.LittleEndian.PutUint32(b[24:], 63)
			return append([]byte{7, 0, 0, 0}, b[:28+63]...)
		}(),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "dbx"+suffix), bad, 0o600))
		_, err := Read(dir)
		require.ErrorContains(t, err, "read the firmware's dbx: ", name)
		// It says nothing of what this firmware starts.
		none := vars(t, nil, certificates(plant))
		require.NoError(t, os.WriteFile(filepath.Join(none, "db"+suffix), bad, 0o600))
		l, err := Read(none)
		require.NoError(t, err, name)
		require.ErrorContains(t, l.Unread, "read the firmware's db: ", name)
		require.True(t, l.Allowed.Empty())
		require.True(t, l.Forbidden.Has(plant), "dbx counts all the same")
	}
}

// FuzzCheck: whatever the firmware has, nothing starts that was changed, and nothing panics.
func FuzzCheck(f *testing.F) {
	plant := testpe.Signer("the plant").Certificate
	root, leaf := testpe.Issued("the authority", "the plant by an authority")
	ours := testpe.Sign(plain, "the plant")
	f.Add(certificates(plant), []byte{}, ours)
	f.Add(certificates(root), programs(authenticode.Hash{1}), ours)
	f.Add(certificates(leaf.Certificate), signedParts(plant), plain)
	f.Fuzz(func(t *testing.T, db, dbx, program []byte) {
		allowed, err := siglist.ReadDatabase(db)
		if err != nil {
			return
		}
		forbidden, err := siglist.ReadDatabase(dbx)
		if err != nil {
			return
		}
		l := Lists{Allowed: allowed, Forbidden: forbidden}
		have, err := l.Check(bytes.NewReader(program), int64(len(program)))
		if err != nil {
			require.Empty(t, have)
			return
		}
		hash, err := authenticode.HashOf(bytes.NewReader(program), int64(len(program)))
		require.NoError(t, err)
		require.NotContains(t, forbidden.Programs, hash)
		for _, c := range have {
			require.False(t, forbidden.Has(c))
		}
	})
}
