package smart

import (
	"encoding/binary"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"spore/agent/metrics/family"
)

// ataPage is SMART data with attributes {id, value, raw}.
func ataPage(attributes ...[3]uint64) []byte {
	page := make([]byte, pageSize)
	for i, a := range attributes {
		at := page[2+i*attributeSize:]
		at[0], at[3] = byte(a[0]), byte(a[1])
		binary.LittleEndian.PutUint32(at[5:], uint32(a[2]))
		binary.LittleEndian.PutUint16(at[9:], uint16(a[2]>>32))
	}
	var sum byte
	for _, b := range page {
		sum += b
	}
	page[pageSize-1] = -sum
	return page
}

func TestSMARTDataOfAnATADisk(t *testing.T) {
	h, err := parseATA(ataPage(
		[3]uint64{5, 100, 8}, [3]uint64{9, 90, 1000 | 7<<32}, [3]uint64{194, 60, 40 | 30<<16}, [3]uint64{197, 100, 2},
		[3]uint64{198, 100, 1}, [3]uint64{177, 93, 50}, [3]uint64{241, 99, 2000},
	), true)
	require.NoError(t, err)
	require.InDelta(t, 0.07, h.Wear, 1e-9)
	h.Wear, h.Spare = 0, 0
	require.Equal(t, Health{
		Failing: true, Celsius: 40, Seconds: 3600000, Written: 1024000, Reallocated: 8, Pending: 2, Errors: 1,
	}, h)
}

func TestSMARTDataThatIsWrong(t *testing.T) {
	bad := ataPage([3]uint64{5, 100, 8})
	bad[100]++
	_, err := parseATA(bad, false)
	require.ErrorContains(t, err, "checksum")
	_, err = parseATA(bad[:100], false)
	require.ErrorContains(t, err, "100 bytes")
	_, err = parseATA(ataPage(), false)
	require.ErrorIs(t, err, errMute, "a disk without attributes says nothing")
	_, err = parseNVMe(nil)
	require.ErrorContains(t, err, "0 bytes")
}

func TestLogPageOfAnNVMeDisk(t *testing.T) {
	page := make([]byte, pageSize)
	page[0], page[3], page[5] = 4, 100, 12
	binary.LittleEndian.PutUint16(page[1:], 273+35)
	binary.LittleEndian.PutUint64(page[48:], 10)
	binary.LittleEndian.PutUint64(page[128:], 2)
	binary.LittleEndian.PutUint64(page[160:], 3)
	h, err := parseNVMe(page)
	require.NoError(t, err)
	require.True(t, math.IsNaN(h.Pending))
	h.Pending, h.Reallocated = 0, 0
	require.Equal(t, Health{Failing: true, Wear: 0.12, Spare: 1, Celsius: 35, Seconds: 7200, Written: 5120000, Errors: 3}, h)
	page[0] = 2
	h, err = parseNVMe(page)
	require.NoError(t, err)
	require.False(t, h.Failing, "a warm disk works")
}

func TestWhatADiskDoesNotSayIsNotTold(t *testing.T) {
	s := family.NewSink(Families())
	tell(s, "sda", unknown())
	out, errs := s.Families()
	require.Empty(t, errs)
	require.Len(t, out, 1)
	require.Equal(t, "spore_disk_failing", out[0].GetName())
}

func TestSense(t *testing.T) {
	sense := make([]byte, 22)
	sense[0], sense[8], sense[9], sense[13], sense[17], sense[19] = 0x72, 0x09, 0x0C, 0xFF, 0xF4, 0x2C
	r, err := parseSense(sense, false)
	require.NoError(t, err)
	require.Equal(t, &registers{count: 0xFF, mid: 0xF4, high: 0x2C}, r)
	r, err = parseSense(nil, true)
	require.NoError(t, err)
	require.Nil(t, r)
	for _, bad := range [][]byte{{0x70}, sense[:10], make([]byte, 22), append(append([]byte{}, sense[:21]...), 1)} {
		_, err := parseSense(bad, false)
		require.ErrorIs(t, err, errMute)
	}
}

func TestADiskThatSleepsIsKnown(t *testing.T) {
	for count, is := range map[byte]bool{
		0x00: true, 0x01: true, 0x40: true, // standby_z, standby_y, spun down with a cache of flash
		0x41: false, 0x80: false, 0x81: false, 0x82: false, 0x83: false, 0xFF: false, // awake or idle
	} {
		require.Equal(t, is, asleep(count), "%#x", count)
	}
}

// The kernel's structures have these sizes on 64-bit machines.
func TestSizesOfTheKernelsStructures(t *testing.T) {
	require.EqualValues(t, 88, unsafe.Sizeof(sgHeader{}))
	require.EqualValues(t, 72, unsafe.Sizeof(nvmeCommand{}))
}

func FuzzParse(f *testing.F) {
	f.Add(ataPage([3]uint64{5, 100, 8}))
	f.Add(make([]byte, pageSize))
	f.Fuzz(func(t *testing.T, page []byte) {
		for _, parse := range []func() (Health, error){
			func() (Health, error) { return parseATA(page, false) }, func() (Health, error) { return parseNVMe(page) },
		} {
			h, err := parse()
			if err != nil {
				continue
			}
			s := family.NewSink(Families())
			tell(s, "sda", h)
			_, errs := s.Families()
			require.Empty(t, errs)
		}
		_, _ = parseSense(page, false)
	})
}
