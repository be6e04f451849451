package secureboot

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"
	"unicode/utf16"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"spore/pki/siglist"
)

// makeStore is a flash image of OVMF with some variables.
func makeStore(vars ...Stored) []byte {
	le := binary.LittleEndian
	fd := make([]byte, 72)
	copy(fd[volumeGUID:], siglist.GUID(nvVolume))
	le.PutUint16(fd[volumeLength:], 72)
	store := make([]byte, storeHeader)
	copy(store, siglist.GUID(authenticatedVars))
	for _, v := range vars {
		name := append(utf16.Encode([]rune(v.Name)), 0)
		h := make([]byte, storedHeader)
		le.PutUint16(h, storedStart)
		h[2] = storedAdded
		le.PutUint32(h[36:], uint32(2*len(name)))
		le.PutUint32(h[40:], uint32(len(v.Data)))
		copy(h[44:], siglist.GUID(v.Vendor))
		for _, c := range name {
			h = le.AppendUint16(h, c)
		}
		h = append(h, v.Data...)
		store = append(store, append(h, make([]byte, -len(h)&3)...)...)
	}
	store = append(store, bytes.Repeat([]byte{0xff}, 256)...)
	le.PutUint32(store[16:], uint32(len(store)))
	return append(fd, store...)
}

func TestMicrosoftsCertificatesAreFoundByTheirOwner(t *testing.T) {
	k, err := testKeys()
	require.NoError(t, err)
	theirs, ours := siglist.Entry{Owner: microsoft, Certificate: k.PK.Certificate}, siglist.Entry{Owner: uuid.New(), Certificate: k.DB.Certificate}
	fd := makeStore(
		Stored{"Boot0000", globalVariable, []byte("x")},
		Stored{"KEK", globalVariable, siglist.EncodeCertificates([]siglist.Entry{ours, theirs})},
		Stored{"db", imageSecurityDatabase, siglist.EncodeCertificates([]siglist.Entry{theirs, ours, theirs})},
		Stored{"db", uuid.New(), []byte("of somebody else")},
	)
	kek, db, err := Microsoft(fd)
	require.NoError(t, err)
	require.Equal(t, []siglist.Entry{theirs}, kek)
	require.Equal(t, []siglist.Entry{theirs, theirs}, db)
}

func TestStoresThatAreRefused(t *testing.T) {
	k, err := testKeys()
	require.NoError(t, err)
	good := func() []byte {
		return makeStore(Stored{"db", imageSecurityDatabase, siglist.EncodeCertificates([]siglist.Entry{{Owner: microsoft, Certificate: k.DB.Certificate}})})
	}
	put := func(off int, v uint32) []byte {
		b := good()
		binary.LittleEndian.PutUint32(b[off:], v)
		return b
	}
	for name, c := range map[string]struct {
		fd  []byte
		err string
	}{
		"nothing":                   {nil, "not a variable store"},
		"another volume":            {put(volumeGUID, 1), "not a variable store"},
		"another store":             {put(72, 1), "no authenticated variables"},
		"a header behind the end":   {put(volumeLength, 0xfff0), "no authenticated variables"},
		"a store that is cut":       {put(72+16, 1<<20), "cut short"},
		"a name that is too long":   {put(72+storeHeader+36, 1<<30), "does not fit"},
		"data that is too long":     {put(72+storeHeader+40, 1<<30), "does not fit"},
		"only db":                   {good(), "no certificates of Microsoft"},
		"a db that is no list":      {makeStore(Stored{"db", imageSecurityDatabase, []byte("x")}), "cut short"},
		"nobody's variables at all": {makeStore(), "no certificates of Microsoft"},
	} {
		_, _, err := Microsoft(c.fd)
		require.ErrorContains(t, err, c.err, name)
	}
	deleted := good()
	deleted[72+storeHeader+2] = 0x3c
	list, err := StoredVariables(deleted)
	require.NoError(t, err)
	require.Empty(t, list, "a variable that was deleted is none")
}

// The file is that of Debian's package ovmf.
func TestMicrosoftsCertificatesAreInOVMFs(t *testing.T) {
	fd, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.ms.fd")
	require.NoError(t, err, "run make deps")
	kek, db, err := Microsoft(fd)
	require.NoError(t, err)
	require.Contains(t, kek[0].Certificate.Subject.CommonName, "Microsoft Corporation KEK CA")
	var names []string
	for _, e := range db {
		names = append(names, e.Certificate.Subject.CommonName)
	}
	require.Contains(t, names, "Microsoft Corporation UEFI CA 2011", "what option ROMs are signed with")
}
