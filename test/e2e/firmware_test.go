//go:build e2e

package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"spore/builder/secureboot"
	"spore/builder/vm"
)

// Firmware from the factory writes 17 KB of variables when it starts for the first time, one byte at a time, and QEMU
// takes some 50 microseconds for each: 0.6 of a boot's CPU seconds. Most of them say nothing of the machine (half are
// eight empty entries for iSCSI). So machines under UEFI begin with firmware that was started once, without a disk.
// Those with the firmware of Secure Boot begin as they come from the factory, and so do those of `spore boot`.

// startedFirmware starts a machine without a disk and a card in a folder, until its firmware has nothing to boot. It
// returns the file with its variables.
func startedFirmware(ctx context.Context, accel vm.Accel, dir string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	c := vm.Config{Name: "firmware", Dir: dir, Accel: accel}
	m, err := vm.Start(ctx, c)
	if err != nil {
		return "", err
	}
	defer m.Kill()
	// What it writes last is written before it starts the first option, its own shell.
	if _, _, err := m.Console.AwaitMatch(ctx, 0, regexp.MustCompile(`BdsDxe: starting Boot|Press .*ESC`)); err != nil {
		return "", err
	}
	if err := m.Quit(); err != nil {
		return "", err
	}
	fd, err := os.ReadFile(c.VarsPath())
	if err != nil {
		return "", err
	}
	if err := forgetBootOptions(fd); err != nil {
		return "", fmt.Errorf("%s: %w", c.VarsPath(), err)
	}
	return c.VarsPath(), os.WriteFile(c.VarsPath(), fd, 0o600)
}

// Variables in flash memory, as EDK II keeps them (MdeModulePkg/Include/Guid/VariableFormat.h): a store behind the
// header of the volume (UEFI PI 1.7, volume 3, section 3.2.1), in which a record is deleted by clearing a bit.
const (
	volumeHeaderLength = 48 // where the volume's header has its own length
	storeHeader        = 28
	recordHeader       = 60
	recordStart        = 0x55aa
	recordState        = 2 // where a record has its state
	recordNameSize     = 36
	recordDataSize     = 40
	notDeleted         = 0x02
)

// bootOption is the name of a variable with a boot option, or with their order.
var bootOption = regexp.MustCompile(`^Boot(Order|[0-9A-F]{4})\x00$`)

// forgetBootOptions deletes the variables of boot options, so that the numbers of those to come begin as on a new
// machine.
func forgetBootOptions(fd []byte) error {
	if len(fd) < volumeHeaderLength+2 {
		return fmt.Errorf("%d bytes are no variables", len(fd))
	}
	found := 0
	at := int(binary.LittleEndian.Uint16(fd[volumeHeaderLength:])) + storeHeader
	for at+recordHeader <= len(fd) && binary.LittleEndian.Uint16(fd[at:]) == recordStart {
		nameSize := int(binary.LittleEndian.Uint32(fd[at+recordNameSize:]))
		size := recordHeader + nameSize + int(binary.LittleEndian.Uint32(fd[at+recordDataSize:]))
		if size > len(fd)-at {
			return fmt.Errorf("the variable at %d is larger than the file", at)
		}
		name := make([]uint16, nameSize/2)
		if _, err := binary.Decode(fd[at+recordHeader:], binary.LittleEndian, name); err != nil {
			return err
		}
		if fd[at+recordState]&notDeleted != 0 && bootOption.MatchString(string(utf16.Decode(name))) {
			fd[at+recordState] &^= notDeleted
			found++
		}
		at = (at + size + 3) &^ 3
	}
	if found == 0 {
		return errors.New("it has no boot options")
	}
	return nil
}

func TestTheFirmwareOfTheTestsWasStartedAndHasNoBootOptions(t *testing.T) {
	fd, err := os.ReadFile(suite.vars)
	require.NoError(t, err)
	vars, err := secureboot.StoredVariables(fd)
	require.NoError(t, err)
	var names []string
	for _, v := range vars {
		names = append(names, v.Name)
	}
	require.Contains(t, names, "MemoryTypeInformation", "which it writes last")
	for _, name := range names {
		require.NotRegexp(t, `^Boot(Order|[0-9A-F]{4})$`, name)
	}
	require.Error(t, forgetBootOptions(fd), "there are none any more")
	require.Error(t, forgetBootOptions(fd[:20]))
	require.Error(t, forgetBootOptions(make([]byte, len(fd))))
}
