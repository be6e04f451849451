package bootoption_test

import (
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootoption"
	"spore/agent/efi"
	"spore/storage/gpt"
)

const vendor = "-8be4df61-93ca-11d2-aa0d-00e098032b8c"

var (
	esp = gpt.Partition{
		Number: 1, GUID: gpt.MustParseGUID("ccdf428a-298b-8c83-b481-d9d11cd24e34"), Start: 1 << 20, Size: 1 << 30,
	}
	some = bootoption.Option{Description: "Spore", Partition: esp, SectorSize: 512, File: "/EFI/systemd/next.efi"}
)

func put(t *testing.T, vars, name string, data ...byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(vars, name+vendor), append([]byte{7, 0, 0, 0}, data...), 0o644))
}

func get(t *testing.T, vars, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vars, name+vendor))
	require.NoError(t, err)
	return data[4:]
}

func TestAnOptionIsWhatTheSpecificationSays(t *testing.T) {
	// Attributes, length of the path, description; HD(1,GPT,…,0x800,0x200000), the file, the end.
	want := "01000000" + "5e00" + "530070006f00720065000000" +
		"04012a00" + "01000000" + "0008000000000000" + "0000200000000000" + "8a42dfcc8b29838cb481d9d11cd24e34" + "0202" +
		"04043000" + "5c004500460049005c00730079007300740065006d0064005c006e006500780074002e006500660069000000" + "7fff0400"
	require.Equal(t, want, hex.EncodeToString(some.Encode()))
	description, path, err := efi.ParseLoadOption(some.Encode())
	require.NoError(t, err, "another reader")
	require.Equal(t, "Spore", description)
	require.Equal(t, `HD(1)/\EFI\systemd\next.efi`, path.String())
	large := some
	large.SectorSize = 4096
	for _, o := range []bootoption.Option{some, large} {
		got, err := bootoption.Parse(o.Encode(), o.SectorSize)
		require.NoError(t, err)
		require.Equal(t, o, got)
	}
}

func TestAnOptionOfSomethingElseIsNotRead(t *testing.T) {
	good := some.Encode()
	changed := func(at int, b byte) []byte {
		out := append([]byte{}, good...)
		out[at] = b
		return out
	}
	for name, b := range map[string][]byte{
		"nothing": nil, "no path": good[:18], "cut short": good[:len(good)-1], "description without an end": good[:10],
		"another path": changed(18+1, 3), "a partition of an MBR": changed(18+40, 1), "no GUID": changed(18+41, 1),
		"a far partition": changed(18+15, 0xff), "a huge partition": changed(18+23, 0xff), "no file": changed(18+42, 3),
		"a file over the end": changed(18+45, 0xff), "a file of no size": changed(18+44, 0), "no end": changed(len(good)-4, 1),
		"too large": append(good, make([]byte, 20<<10)...),
	} {
		_, err := bootoption.Parse(b, 512)
		require.Error(t, err, name)
	}
	_, err := bootoption.Parse(good, 0)
	require.Error(t, err)
	_, err = bootoption.Parse(changed(19, 3), 512)
	require.ErrorIs(t, err, bootoption.ErrOther)
}

func TestAnOptionIsForTheNextStartAndIsForgotten(t *testing.T) {
	dir := t.TempDir()
	v := bootoption.Variables(dir)
	put(t, dir, "Boot0000", 1, 2, 3)
	put(t, dir, "Boot0002", 9)
	put(t, dir, "BootOrder", 2, 0, 0, 0)
	for range 2 { // The second time it is there.
		number, err := v.Add(some)
		require.NoError(t, err)
		require.EqualValues(t, 1, number)
		require.Equal(t, some.Encode(), get(t, dir, "Boot0001"))
		next, err := v.IsNext(number)
		require.NoError(t, err)
		require.False(t, next)
	}
	require.NoError(t, v.Next(1))
	require.Equal(t, []byte{1, 0}, get(t, dir, "BootNext"))
	require.Equal(t, []byte{2, 0, 0, 0}, get(t, dir, "BootOrder"), "the order is as it was")
	require.NoError(t, v.First(1))
	require.Equal(t, []byte{1, 0, 2, 0, 0, 0}, get(t, dir, "BootOrder"))
	for range 2 {
		require.NoError(t, v.Forget(some))
		require.NoFileExists(t, filepath.Join(dir, "Boot0001"+vendor))
		require.NoFileExists(t, filepath.Join(dir, "BootNext"+vendor))
	}
	require.Equal(t, []byte{1, 2, 3}, get(t, dir, "Boot0000"))

	// What somebody else has asked for stays.
	number, err := v.Add(some)
	require.NoError(t, err)
	put(t, dir, "BootNext", 2, 0)
	require.NoError(t, v.Forget(some))
	require.Equal(t, []byte{2, 0}, get(t, dir, "BootNext"))
	require.NoFileExists(t, filepath.Join(dir, bootoption.Name(number)+vendor))
}

func TestOptionsStandBehindTheOneThatStartsTheMachine(t *testing.T) {
	for name, tt := range map[string]struct {
		order       []byte
		first       uint16
		want        []byte
		complaining string
	}{
		"behind the only one":            {[]byte{1, 0}, 1, []byte{1, 0, 5, 0, 6, 0}, ""},
		"before others":                  {[]byte{3, 0, 1, 0, 4, 0}, 1, []byte{3, 0, 1, 0, 5, 0, 6, 0, 4, 0}, ""},
		"there already":                  {[]byte{1, 0, 5, 0, 6, 0, 4, 0}, 1, []byte{1, 0, 5, 0, 6, 0, 4, 0}, ""},
		"there, behind another one":      {[]byte{3, 0, 5, 0, 6, 0, 1, 0}, 1, []byte{3, 0, 5, 0, 6, 0, 1, 0}, ""},
		"there, with nothing in front":   {[]byte{5, 0, 6, 0, 1, 0}, 1, []byte{1, 0, 5, 0, 6, 0}, ""},
		"in another order":               {[]byte{6, 0, 1, 0, 5, 0}, 1, []byte{1, 0, 5, 0, 6, 0}, ""},
		"one of them starts the machine": {[]byte{1, 0, 5, 0, 4, 0}, 5, []byte{1, 0, 5, 0, 6, 0, 4, 0}, ""},
		"what starts it is not in it":    {[]byte{3, 0}, 1, []byte{3, 0}, "does not have Boot0001"},
		"half a number":                  {[]byte{3}, 1, []byte{3}, "BootOrder: 1 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "BootOrder", tt.order...)
			err := bootoption.Variables(dir).Behind(tt.first, []uint16{5, 6})
			require.Equal(t, tt.want, get(t, dir, "BootOrder"))
			if tt.complaining != "" {
				require.ErrorContains(t, err, tt.complaining)
			} else {
				require.NoError(t, err)
			}
		})
	}
	require.ErrorContains(t, bootoption.Variables(t.TempDir()).Behind(1, []uint16{5}), "does not have Boot0001")
}

func TestWhichOptionStartedTheMachine(t *testing.T) {
	dir := t.TempDir()
	v := bootoption.Variables(dir)
	_, err := v.Started(some)
	require.ErrorIs(t, err, fs.ErrNotExist)
	put(t, dir, "BootCurrent", 3, 0)
	_, err = v.Started(some)
	require.ErrorIs(t, err, fs.ErrNotExist, "an option that is gone")
	put(t, dir, "Boot0003", some.Encode()...)
	for description, want := range map[string]bool{some.Description: true, "else": false} {
		o := some
		o.Description = description
		is, err := v.Started(o)
		require.NoError(t, err)
		require.Equal(t, want, is)
	}
	put(t, dir, "BootCurrent", 3)
	_, err = v.Current()
	require.ErrorContains(t, err, "BootCurrent: 1 bytes")
}

func TestOptionsThatStartAFileAreListed(t *testing.T) {
	dir := t.TempDir()
	v := bootoption.Variables(dir)
	list, err := v.Kept(512)
	require.NoError(t, err)
	require.Empty(t, list)
	other := some
	other.Description = "else"
	put(t, dir, "Boot000A", other.Encode()...)
	put(t, dir, "Boot0003", some.Encode()...)
	put(t, dir, "Boot0001", 1, 2, 3)
	put(t, dir, "BootNext", 3, 0)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Boot0002"+vendor), nil, 0o600), "the firmware refused it")
	list, err = v.Kept(512)
	require.NoError(t, err)
	require.Equal(t, []bootoption.Kept{{Number: 3, Option: some}, {Number: 10, Option: other}}, list)
}

func TestAnOptionIsDroppedFromOrderAndNextStart(t *testing.T) {
	dir := t.TempDir()
	v := bootoption.Variables(dir)
	require.NoError(t, v.Drop(3), "there is nothing")
	for number, name := range []string{"Boot0000", "Boot0001", "Boot0002"} {
		put(t, dir, name, some.Encode()...)
		require.NoError(t, v.First(uint16(number)))
	}
	put(t, dir, "BootNext", 1, 0)
	require.NoError(t, v.Drop(1))
	require.Equal(t, []byte{2, 0, 0, 0}, get(t, dir, "BootOrder"))
	require.NoFileExists(t, filepath.Join(dir, "Boot0001"+vendor))
	require.NoFileExists(t, filepath.Join(dir, "BootNext"+vendor))
	put(t, dir, "BootNext", 2, 0)
	require.NoError(t, v.Drop(0))
	require.FileExists(t, filepath.Join(dir, "BootNext"+vendor), "it names another one")
	require.NoError(t, v.Drop(2))
	require.NoFileExists(t, filepath.Join(dir, "BootOrder"+vendor))

	put(t, dir, "Boot0003", some.Encode()...)
	put(t, dir, "BootOrder", 1)
	require.ErrorContains(t, v.Drop(3), "BootOrder: 1 bytes")
	require.FileExists(t, filepath.Join(dir, "Boot0003"+vendor), "it is in an order that cannot be read")
}

func TestFirmwareThatKeepsNoVariables(t *testing.T) {
	v := bootoption.Variables(filepath.Join(t.TempDir(), "none"))
	_, err := v.Add(some)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Error(t, v.Next(1))
	require.NoError(t, v.Forget(some), "there is nothing")

	dir := t.TempDir()
	v = bootoption.Variables(dir)
	require.NoError(t, os.Symlink("/dev/null", filepath.Join(dir, "BootNext"+vendor)))
	require.ErrorContains(t, v.Next(1), "EFI variable")

	dir = t.TempDir()
	put(t, dir, "BootOrder", 1)
	require.ErrorContains(t, bootoption.Variables(dir).First(1), "BootOrder: 1 bytes")
}

func FuzzParse(f *testing.F) {
	f.Add(some.Encode(), 512)
	f.Add(some.Encode()[:40], 4096)
	f.Fuzz(func(t *testing.T, b []byte, sectorSize int) {
		o, err := bootoption.Parse(b, sectorSize)
		if err != nil {
			return
		}
		again, err := bootoption.Parse(o.Encode(), sectorSize)
		require.NoError(t, err)
		require.Equal(t, o, again)
	})
}
