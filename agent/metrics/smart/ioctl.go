package smart

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of the kernel (include/scsi/sg.h, include/uapi/linux/nvme_ioctl.h).
const (
	sgIO         = 0x2285
	nvmeAdmin    = 0xC0484E41
	fromDisk     = -3
	noData       = -1
	patience     = 5000 // ms
	nvmeLogPage  = 0x02
	nvmeSMART    = 0x02
	allOfTheDisk = 0xFFFFFFFF
)

// sgHeader is struct sg_io_hdr.
type sgHeader struct {
	interfaceID    int32
	direction      int32
	commandLen     uint8
	maxSense       uint8
	iovecs         uint16
	length         uint32
	data           unsafe.Pointer
	command        unsafe.Pointer
	sense          unsafe.Pointer
	timeout        uint32
	flags          uint32
	packID         int32
	_              uint32
	usrPtr         unsafe.Pointer
	status         uint8
	maskedStatus   uint8
	msgStatus      uint8
	senseWritten   uint8
	hostStatus     uint16
	driverStatus   uint16
	resid          int32
	duration, info uint32
}

// nvmeCommand is struct nvme_passthru_cmd.
type nvmeCommand struct {
	opcode, flags    uint8
	_                uint16
	namespace        uint32
	cdw2, cdw3       uint32
	metadata         uint64
	data             uint64
	metadataLen      uint32
	dataLen          uint32
	cdw10, cdw11     uint32
	cdw12, cdw13     uint32
	cdw14, cdw15     uint32
	timeout, answers uint32
}

func ioctl(f *os.File, request uintptr, with unsafe.Pointer) (int, error) {
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(with))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// askNVMe reads the SMART log page of the controller.
func askNVMe(f *os.File) (Health, error) {
	page := make([]byte, pageSize)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&page[0])
	c := nvmeCommand{
		opcode: nvmeLogPage, namespace: allOfTheDisk, data: uint64(uintptr(unsafe.Pointer(&page[0]))), dataLen: pageSize,
		cdw10: nvmeSMART | (pageSize/4-1)<<16, timeout: patience,
	}
	status, err := ioctl(f, nvmeAdmin, unsafe.Pointer(&c))
	switch {
	case err == unix.ENOTTY:
		return Health{}, errMute
	case err != nil:
		return Health{}, fmt.Errorf("read the SMART log page: %w", err)
	case status != 0:
		return Health{}, errMute // The controller has no such page.
	}
	return parseNVMe(page)
}

// Commands of ATA (ATA/ATAPI Command Set 3).
const (
	passThrough16  = 0x85
	checkPowerMode = 0xE5
	smart          = 0xB0
	readData       = 0xD0
	returnStatus   = 0xDA
)

// asleep tells whether a disk's platters stand still, by the count that CHECK POWER MODE returns (ACS-3, 7.4): all of
// standby, standby_y of disks with extended power conditions, and that of disks which work from a cache of flash.
func asleep(count byte) bool { return count == 0x00 || count == 0x01 || count == 0x40 }

// askATA looks whether the disk is awake, and reads its SMART data and its own opinion.
func askATA(f *os.File) (Health, error) {
	mode, err := ata(f, []byte{passThrough16, 3 << 1, 0x20, 14: checkPowerMode, 15: 0}, nil)
	if err != nil {
		return Health{}, err
	}
	if mode == nil { // It may sleep, and nobody knows.
		return Health{}, errMute
	}
	if asleep(mode.count) {
		return Health{}, errAsleep
	}
	page := make([]byte, pageSize)
	command := []byte{passThrough16, 4 << 1, 0x0E, 0, readData, 0, 1, 10: 0x4F, 12: 0xC2, 14: smart, 15: 0}
	if _, err := ata(f, command, page); err != nil {
		return Health{}, err
	}
	command = []byte{passThrough16, 3 << 1, 0x20, 0, returnStatus, 10: 0x4F, 12: 0xC2, 14: smart, 15: 0}
	opinion, err := ata(f, command, nil)
	if err != nil {
		return Health{}, err
	}
	return parseATA(page, opinion != nil && opinion.mid == 0xF4 && opinion.high == 0x2C)
}

// registers are what a disk answers besides data.
type registers struct{ count, mid, high byte }

// ata gives one command to the disk. The registers are nil where it returns none.
func ata(f *os.File, command, data []byte) (*registers, error) {
	sense := make([]byte, 64)
	h := sgHeader{
		interfaceID: 'S', direction: noData, commandLen: uint8(len(command)), maxSense: uint8(len(sense)),
		command: unsafe.Pointer(&command[0]), sense: unsafe.Pointer(&sense[0]), timeout: patience,
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&command[0])
	pin.Pin(&sense[0])
	if data != nil {
		pin.Pin(&data[0])
		h.direction, h.length, h.data = fromDisk, uint32(len(data)), unsafe.Pointer(&data[0])
	}
	if _, err := ioctl(f, sgIO, unsafe.Pointer(&h)); err != nil {
		return nil, fmt.Errorf("ask by SG_IO: %w", err)
	}
	if h.hostStatus != 0 {
		return nil, fmt.Errorf("the controller answers with the status %#x", h.hostStatus)
	}
	return parseSense(sense[:min(int(h.senseWritten), len(sense))], data != nil)
}

// parseSense reads the ATA status return descriptor (SAT-3, 12.2.7) of sense data in the format of descriptors (SPC-4,
// 4.5.2). A disk that refuses a command that has data is mute.
func parseSense(sense []byte, data bool) (*registers, error) {
	if len(sense) == 0 {
		return nil, nil
	}
	if sense[0]&0x7F != 0x72 || len(sense) < 8+14 || sense[8] != 0x09 {
		return nil, errMute
	}
	d := sense[8:]
	if d[13]&0x01 != 0 || data { // ERR of the register of the state
		return nil, errMute
	}
	return &registers{count: d[5], mid: d[9], high: d[11]}, nil
}
