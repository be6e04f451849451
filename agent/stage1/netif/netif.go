// Package netif brings network cards up and down and gives one an IPv4 address and a way out, by the kernel's old ioctls
// (netdevice(7), Linux include/uapi/linux/route.h): they are a tenth of the code of netlink.
package netif

import (
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Up brings a card up.
func Up(name string) error { return flags(name, unix.IFF_UP, 0) }

// Down brings it down.
func Down(name string) error { return flags(name, 0, unix.IFF_UP) }

func flags(name string, set, clear uint16) error {
	return request(name, "bring it up or down", func(fd int, r *unix.Ifreq) error {
		if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, r); err != nil {
			return err
		}
		r.SetUint16(r.Uint16()&^clear | set)
		return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
	})
}

// Configure gives a card that is up an address, and makes router, when it is valid, its way out.
func Configure(name string, address netip.Prefix, router netip.Addr) error {
	if err := set(name, unix.SIOCSIFADDR, address.Addr()); err != nil {
		return err
	}
	if err := set(name, unix.SIOCSIFNETMASK, mask(address.Bits())); err != nil {
		return err
	}
	if !router.IsValid() {
		return nil
	}
	if !address.Contains(router) {
		if err := route(name, netip.PrefixFrom(router, 32), netip.Addr{}); err != nil {
			return err
		}
	}
	return route(name, netip.PrefixFrom(netip.IPv4Unspecified(), 0), router)
}

// Clear takes the address from a card, and with it its routes.
func Clear(name string) error { return set(name, unix.SIOCSIFADDR, netip.IPv4Unspecified()) }

func mask(bits int) netip.Addr {
	m := ^uint32(0) << (32 - bits)
	return netip.AddrFrom4([4]byte{byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)})
}

func set(name string, what uint, a netip.Addr) error {
	return request(name, "set "+a.String(), func(fd int, r *unix.Ifreq) error {
		if err := r.SetInet4Addr(a.AsSlice()); err != nil {
			return err
		}
		return unix.IoctlIfreq(fd, what, r)
	})
}

// rtentry is struct rtentry of linux/route.h where longs have 64 bits.
type rtentry struct {
	_                 uint64
	dst, gateway, net unix.RawSockaddrInet4
	flags             uint16
	_                 int16
	_, _              uint64
	metric            int16
	dev               *byte
	_, _              uint64
	_                 uint16
}

// Flags of linux/route.h.
const (
	routeUp      = 1
	routeGateway = 2
	routeHost    = 4
)

func route(name string, to netip.Prefix, via netip.Addr) error {
	dev, err := unix.BytePtrFromString(name)
	if err != nil {
		return fmt.Errorf("network card %q: %w", name, err)
	}
	r := rtentry{dst: socket(to.Addr()), net: socket(mask(to.Bits())), flags: routeUp, dev: dev}
	if to.Bits() == 32 {
		r.flags |= routeHost
	}
	if via.IsValid() {
		r.gateway = socket(via)
		r.flags |= routeGateway
	}
	return request(name, fmt.Sprintf("route to %s by %s", to, via), func(fd int, _ *unix.Ifreq) error {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCADDRT, uintptr(unsafe.Pointer(&r))); errno != 0 {
			return errno
		}
		return nil
	})
}

func socket(a netip.Addr) unix.RawSockaddrInet4 {
	return unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: a.As4()}
}

// request does something to a card through a socket.
func request(name, what string, do func(fd int, r *unix.Ifreq) error) error {
	r, err := unix.NewIfreq(name)
	if err != nil {
		return fmt.Errorf("network card %q: %w", name, err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("network card %s: %w", name, err)
	}
	defer unix.Close(fd)
	if err := do(fd, r); err != nil {
		return fmt.Errorf("network card %s: %s: %w", name, what, err)
	}
	return nil
}
