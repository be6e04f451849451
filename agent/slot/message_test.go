package slot

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/test/testpe"
)

func TestAKernelIsTheSameByItsSections(t *testing.T) {
	long := bytes.Repeat([]byte("kernel "), 400_000) // more than is compared at once
	changed := bytes.Clone(long)
	changed[len(changed)-1] ^= 1
	program := func(cmdline string, sections ...testpe.Section) []byte {
		return testpe.Program(append([]testpe.Section{{Name: ".cmdline", Data: []byte(cmdline)}}, sections...)...)
	}
	linux, initrd := testpe.Section{Name: ".linux", Data: long}, testpe.Section{Name: ".initrd", Data: []byte("modules")}
	one := program("roothash=1", linux, initrd)
	for name, c := range map[string]struct {
		other []byte
		want  bool
	}{
		"another command line":        {program("roothash=2 and more", linux, initrd), true},
		"another order":               {program("roothash=1", initrd, linux), true},
		"the last byte of the kernel": {program("roothash=1", testpe.Section{Name: ".linux", Data: changed}, initrd), false},
		"another initramfs":           {program("roothash=1", linux, testpe.Section{Name: ".initrd", Data: []byte("module2")}), false},
		"no initramfs":                {program("roothash=1", linux), false},
		"microcode besides":           {program("roothash=1", linux, initrd, testpe.Section{Name: ".ucode", Data: []byte("new")}), false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := sameKernel(bytes.NewReader(one), bytes.NewReader(c.other))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			got, err = sameKernel(bytes.NewReader(c.other), bytes.NewReader(one))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	_, err := sameKernel(bytes.NewReader(one), bytes.NewReader(one[:len(one)/2]))
	require.Error(t, err, "a program that is cut")
	_, err = sameKernel(bytes.NewReader([]byte("no program")), bytes.NewReader(one))
	require.Error(t, err)
}
