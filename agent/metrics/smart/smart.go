// Package smart reads what disks say of their own wear: the SMART data of ATA disks (ATA/ATAPI Command Set 3, 7.49;
// by SG_IO with ATA PASS-THROUGH (16) of SAT-3, 12.2.3) and the SMART log page of NVMe disks (NVM Express Base
// Specification 2.0, 5.16.1.3). Both take root. A disk that sleeps is left asleep. Virtual disks and those behind
// controllers that hide them say nothing.
//
// The library github.com/anatol/smart.go reads much more; what is read here are two commands.
package smart

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"spore/agent/blockdev"
	"spore/agent/metrics/family"
)

// pageSize is the size of what both kinds answer, in bytes.
const pageSize = 512

// maxDisks bounds how many disks are asked.
const maxDisks = 256

// Health is what a disk says of itself. A number that it does not say is NaN.
type Health struct {
	// Failing says that the disk expects to fail, or has.
	Failing bool
	// Wear is how much of the writes that the maker promises are used: 1 is all of them, and more is possible.
	Wear float64
	// Spare is how much of the spare blocks is left, from 0 to 1.
	Spare float64
	// Celsius is its temperature.
	Celsius float64
	// Seconds is how long it has been on.
	Seconds float64
	// Written is how many bytes were written to it.
	Written float64
	// Reallocated are sectors that were replaced, Pending those that could not be read and wait for a write, and
	// Errors data that was lost.
	Reallocated, Pending, Errors float64
}

func unknown() Health {
	n := math.NaN()
	return Health{Wear: n, Spare: n, Celsius: n, Seconds: n, Written: n, Reallocated: n, Pending: n, Errors: n}
}

// errAsleep is a disk that is left asleep, and errMute one that has no such data.
var (
	errAsleep = errors.New("the disk sleeps")
	errMute   = errors.New("the disk says nothing of itself")
)

// Families is the table of this package.
func Families() []family.Family {
	row := func(name string, t family.Type, help string) family.Family {
		return family.Family{Name: "spore_disk_" + name, Type: t, Labels: []string{"device"}, From: "SMART, NVMe", Help: help}
	}
	return []family.Family{
		row("failing", family.Gauge, "1 where the disk expects to fail, or has."),
		row("wear_ratio", family.Gauge, "How much of the writes that its maker promises are used; 1 is all of them."),
		row("spare_ratio", family.Gauge, "How much of the disk's spare blocks is left."),
		row("temperature_celsius", family.Gauge, "Temperature of the disk."),
		row("power_on_seconds", family.Gauge, "How long the disk has been on in its life."),
		row("lifetime_written_bytes", family.Gauge, "Bytes that were written to the disk in its life."),
		row("reallocated_sectors", family.Gauge, "Sectors that the disk has replaced."),
		row("pending_sectors", family.Gauge, "Sectors that the disk could not read and has not replaced yet."),
		row("media_errors", family.Gauge, "Data that the disk has lost."),
	}
}

// Measure asks all disks of the machine below root. A disk that fails to answer costs its own rows.
func Measure(root string, into *family.Sink) error {
	list, err := blockdev.List(os.DirFS(filepath.Join(root, "sys")))
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range list[:min(len(list), maxDisks)] {
		kind := kindOf(root, d.Name)
		if kind == nil {
			continue
		}
		h, err := ask(filepath.Join(root, "dev", d.Name), kind)
		switch {
		case errors.Is(err, errAsleep), errors.Is(err, errMute), errors.Is(err, fs.ErrNotExist):
		case err != nil:
			errs = append(errs, fmt.Errorf("ask disk %s: %w", d.Name, err))
		default:
			tell(into, d.Name, h)
		}
	}
	return errors.Join(errs...)
}

// kindOf is how a disk is asked; nil for those that are not.
func kindOf(root, name string) func(*os.File) (Health, error) {
	if strings.HasPrefix(name, "nvme") {
		return askNVMe
	}
	vendor, err := os.ReadFile(filepath.Join(root, "sys/block", name, "device/vendor"))
	if err == nil && strings.TrimSpace(string(vendor)) == "ATA" { // SAT-3, 10.3.2
		return askATA
	}
	return nil
}

func ask(path string, kind func(*os.File) (Health, error)) (Health, error) {
	f, err := os.Open(path)
	if err != nil {
		return Health{}, err
	}
	defer f.Close()
	return kind(f)
}

func tell(into *family.Sink, device string, h Health) {
	into.Flag("spore_disk_failing", h.Failing, device)
	for name, v := range map[string]float64{
		"wear_ratio": h.Wear, "spare_ratio": h.Spare, "temperature_celsius": h.Celsius, "power_on_seconds": h.Seconds,
		"lifetime_written_bytes": h.Written, "reallocated_sectors": h.Reallocated, "pending_sectors": h.Pending,
		"media_errors": h.Errors,
	} {
		if !math.IsNaN(v) {
			into.Add("spore_disk_"+name, v, device)
		}
	}
}

// unitOfData is what NVMe counts written data in: thousands of 512 bytes.
const unitOfData = 512 * 1000

// parseNVMe reads the log page.
func parseNVMe(page []byte) (Health, error) {
	if len(page) != pageSize {
		return Health{}, fmt.Errorf("the log page has %d bytes and not %d", len(page), pageSize)
	}
	// Numbers have 16 bytes; what is told of them are those of a lifetime.
	number := func(at int) float64 {
		return float64(binary.LittleEndian.Uint64(page[at:])) + float64(binary.LittleEndian.Uint64(page[at+8:]))*(1<<64)
	}
	h := unknown()
	h.Failing = page[0]&^2 != 0 // Bit 1 is the temperature.
	h.Celsius = float64(binary.LittleEndian.Uint16(page[1:])) - 273
	h.Spare, h.Wear = float64(page[3])/100, float64(page[5])/100
	h.Written, h.Seconds, h.Errors = number(48)*unitOfData, number(128)*3600, number(160)
	return h, nil
}

// Attributes of ATA disks. Makers agree on these; wear is the attribute of several, of which a disk has one.
const (
	attributes     = 30
	attributeSize  = 12
	reallocated    = 5
	powerOnHours   = 9
	temperature    = 194
	airTemperature = 190
	pending        = 197
	uncorrectable  = 198
	lbasWritten    = 241
)

// wear are the attributes whose normalized value counts down from 100 with what was written.
var wear = []byte{231, 233, 177, 202, 173}

// parseATA reads SMART data; failing is what the disk says of itself (SMART RETURN STATUS).
func parseATA(page []byte, failing bool) (Health, error) {
	if len(page) != pageSize {
		return Health{}, fmt.Errorf("the SMART data has %d bytes and not %d", len(page), pageSize)
	}
	var sum byte
	for _, b := range page {
		sum += b
	}
	if sum != 0 {
		return Health{}, errors.New("the checksum of the SMART data is wrong")
	}
	h := unknown()
	h.Failing = failing
	value, raw := map[byte]byte{}, map[byte]uint64{}
	for i := range attributes {
		a := page[2+i*attributeSize:][:attributeSize]
		if a[0] == 0 {
			continue
		}
		value[a[0]] = a[3]
		raw[a[0]] = uint64(binary.LittleEndian.Uint32(a[5:])) | uint64(binary.LittleEndian.Uint16(a[9:]))<<32
	}
	if len(value) == 0 {
		return Health{}, errMute
	}
	put := func(into *float64, id byte, mask uint64, unit float64) {
		if v, ok := raw[id]; ok {
			*into = float64(v&mask) * unit
		}
	}
	put(&h.Reallocated, reallocated, math.MaxUint32, 1)
	put(&h.Pending, pending, math.MaxUint32, 1)
	put(&h.Errors, uncorrectable, math.MaxUint32, 1)
	put(&h.Seconds, powerOnHours, math.MaxUint32, 3600) // Some makers have minutes above.
	put(&h.Written, lbasWritten, math.MaxUint64, 512)
	put(&h.Celsius, airTemperature, 0xFF, 1) // Makers have the lowest and highest above.
	put(&h.Celsius, temperature, 0xFF, 1)
	for _, id := range wear {
		if v, ok := value[id]; ok && v <= 100 {
			h.Wear = float64(100-v) / 100
			break
		}
	}
	return h, nil
}
