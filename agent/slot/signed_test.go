package slot

import (
	"bytes"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"spore/agent/bootloader"
	"spore/agent/keydb"
	"spore/pki/authenticode"
	"spore/pki/siglist"
	"spore/test/testpe"
)

// firmwareWith is one whose db, and dbx, have the certificates of names.
func firmwareWith(t *testing.T, db, dbx []string) keydb.Lists {
	t.Helper()
	list := func(names []string) siglist.Database {
		var entries []siglist.Entry
		for _, n := range names {
			entries = append(entries, siglist.Entry{Owner: uuid.UUID{1}, Certificate: testpe.Signer(n).Certificate})
		}
		d, err := siglist.ReadDatabase(siglist.EncodeCertificates(entries))
		require.NoError(t, err)
		return d
	}
	return keydb.Lists{Allowed: list(db), Forbidden: list(dbx)}
}

// signedLoader is a boot loader that somebody signed.
func signedLoader(text, name string) []byte {
	return testpe.Sign(testpe.Program(testpe.Section{Name: ".text", Data: bytes.Repeat([]byte(text), 300)}), name)
}

// An update whose kernel or boot loader the firmware would not start is refused before anything of the disk is
// written: the loader has nobody who counts its starts.
func TestWhatTheFirmwareWouldNotStartIsRefused(t *testing.T) {
	const plant, other = "the plant", "somebody"
	runs, next := makeSystem("y", plant), makeSystem("x", plant)
	byOther := makeSystem("x", other)
	onDisk := signedLoader("old ", plant)
	damaged := signedLoader("new ", plant)
	damaged[len(damaged)-20]++
	hashOf := func(program []byte) authenticode.Hash {
		h, err := authenticode.HashOf(bytes.NewReader(program), int64(len(program)))
		require.NoError(t, err)
		return h
	}
	for name, tt := range map[string]struct {
		pushed  system
		loader  []byte
		db, dbx []string
		hashes  []authenticode.Hash
		esp     []byte
		off     bool
		want    string
	}{
		"both by a certificate of db":        {pushed: next, loader: signedLoader("new ", plant), db: []string{plant}},
		"without a boot loader":              {pushed: next, db: []string{other, plant}},
		"the loader of the ESP":              {pushed: next, loader: onDisk, db: []string{plant}},
		"the loader of the ESP is damaged":   {pushed: next, loader: signedLoader("new ", plant), db: []string{plant}, esp: []byte("torn")},
		"Secure Boot is off":                 {pushed: byOther, loader: signedLoader("new ", other), db: []string{plant}, off: true},
		"the kernel by another":              {pushed: byOther, db: []string{plant}, want: `would not start the UKI of the update: it is signed by "CN=somebody" (SHA-256 `},
		"the kernel by another of db":        {pushed: byOther, db: []string{plant, other}, want: `the UKI of the update is signed by another certificate than the one that runs ("CN=somebody"`},
		"the kernel's certificate in dbx":    {pushed: next, db: []string{plant}, dbx: []string{plant}, want: `the UKI of the update: it is signed by or through "CN=the plant"`},
		"the kernel's hash in dbx":           {pushed: next, db: []string{plant}, hashes: []authenticode.Hash{hashOf(next.uki)}, want: "the UKI of the update: the firmware has it among those that it does not start (dbx)"},
		"db has lost what runs":              {pushed: next, db: []string{other}, want: "neither that certificate nor one of its issuers in its db; sign with a key whose certificate the machine has"},
		"the loader by another":              {pushed: next, loader: signedLoader("new ", other), db: []string{plant}, want: `would not start the boot loader of the update: it is signed by "CN=somebody" (SHA-256 `},
		"the loader by another of db":        {pushed: next, loader: signedLoader("new ", other), db: []string{plant, other}, want: `the boot loader of the update is signed by another certificate`},
		"the loader not signed":              {pushed: next, loader: otherLoaderProgram, db: []string{plant}, want: "the boot loader of the update is not signed"},
		"the loader's signature is damaged":  {pushed: next, loader: damaged, db: []string{plant}, want: "firmware would not start the boot loader of the update: its signature does not hold"},
		"the loader's hash in dbx":           {pushed: next, loader: signedLoader("new ", plant), db: []string{plant}, hashes: []authenticode.Hash{hashOf(signedLoader("new ", plant))}, want: "the boot loader of the update: the firmware has it among those"},
		"the loader is no program":           {pushed: next, loader: otherLoader, db: []string{plant}, want: "firmware would not start the boot loader of the update: "},
		"a loader alone, by another":         {pushed: runs, loader: signedLoader("new ", other), db: []string{plant}, want: "would not start the boot loader of the update"},
		"a loader alone, by who is there":    {pushed: runs, loader: signedLoader("new ", plant), db: []string{plant}},
		"nobody knows what db has, by other": {pushed: next, loader: signedLoader("new ", other), want: "the boot loader of the update is signed by another certificate than the one that runs"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newDisk(t, runs)
			esp := tt.esp
			if esp == nil {
				esp = onDisk
			}
			putLoader(t, disk, esp)
			m := machineOf(t, disk, runs)
			m.Loader = t.TempDir()
			m.SecureBoot, m.Keys = !tt.off, firmwareWith(t, tt.db, tt.dbx)
			m.Keys.Forbidden.Programs = tt.hashes
			last := Record{Serial: 5, ClusterHash: runs.hash, RootHash: runs.root.hash, State: Kept}
			writeRecord(m, last)
			disk.ops = nil
			_, err := tt.pushed.withLoader(t, 6, tt.loader, nil).run(t, m)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			var r Refusal
			require.ErrorAs(t, err, &r)
			require.ErrorContains(t, err, tt.want)
			require.Empty(t, disk.ops)
			require.NoDirExists(t, m.Work)
			require.Equal(t, bootloader.Record{}, loaderRecord(t, m))
			got, err := ReadRecord(m.Record)
			require.NoError(t, err)
			require.Equal(t, last, got)
		})
	}
}

var otherLoaderProgram = testpe.Program(testpe.Section{Name: ".text", Data: []byte("nobody signed it")})

// putLoader has the ESP have a boot loader.
func putLoader(t *testing.T, disk *medium, content []byte) {
	t.Helper()
	e := editESP(t, disk)
	require.NoError(t, e.Remove("/EFI/BOOT", "BOOTX64.EFI"))
	now := machineOf(t, disk, oldSystem).Now()
	require.NoError(t, e.Create("/EFI/BOOT", "BOOTX64.EFI", int64(len(content)), bytes.NewReader(content), now))
}
