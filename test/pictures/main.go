// Program pictures takes the pictures of the documentation: it boots an image in QEMU with a screen and writes what is on it,
// as PNG, into a folder. `make pictures` runs it.
//
//	go run ./test/pictures out/spore.img docs/pictures
package main

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"spore/builder/vm"
)

const (
	// limit bounds one wait; emulation takes its time.
	limit = 8 * time.Minute
	// settle is how long a screen takes to show what the serial console has shown.
	settle = 2 * time.Second
	// keyPause is the pause between two presses of a key, shorter than the tenth of a second that systemd-boot waits for one.
	keyPause = 40 * time.Millisecond
	diskSize = 8 << 30
	// stranger is a MAC that no cluster has.
	stranger = "52:54:00:fe:ed:01"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: pictures IMAGE FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func run(img, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "spore-pictures-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 3*limit)
	defer cancel()
	img, err = filepath.Abs(img)
	if err != nil {
		return err
	}
	disk := filepath.Join(dir, "disk.qcow2")
	if err := vm.Overlay(ctx, img, disk, diskSize); err != nil {
		return err
	}
	accel, err := vm.DetectAccel(ctx)
	if err != nil {
		return err
	}
	m, err := vm.Start(ctx, vm.Config{
		Name: "pictures", Dir: dir, Accel: accel, CPUs: 2, Display: true, Reboots: true,
		Disks: []vm.Disk{{Path: disk, Format: "qcow2", Serial: "S4EWNX0R123456", BootIndex: 1}},
		NICs:  []vm.NIC{{MAC: stranger, Net: "10.77.0.0/24", DHCPStart: "10.77.0.77"}}, SMBIOS: vm.SMBIOS{Serial: "7CQ1XG3"},
	})
	if err != nil {
		return err
	}
	defer m.Kill()
	for _, p := range []struct {
		name string
		wait func(context.Context, *vm.Machine) error
	}{{"boot-menu", menu}, {"boot", booting}, {"unknown-machine", unknown}} {
		if err := p.wait(ctx, m); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if err := take(m, filepath.Join(folder, p.name+".png")); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return m.Quit()
}

// menu holds a key down until the firmware has started the boot loader, which then shows its menu.
func menu(ctx context.Context, m *vm.Machine) error {
	started := regexp.MustCompile(`BdsDxe: starting`)
	for {
		if _, ok := m.Console.Find(0, started); ok {
			break
		}
		if ctx.Err() != nil {
			return errors.New("the firmware starts nothing")
		}
		time.Sleep(keyPause)
	}
	for range 25 {
		if err := m.Press("up"); err != nil {
			return err
		}
		time.Sleep(keyPause)
	}
	time.Sleep(settle)
	return nil
}

// booting starts what the menu offers and waits until stage1 has done its part.
func booting(ctx context.Context, m *vm.Machine) error {
	if err := m.Press("ret"); err != nil {
		return err
	}
	if _, _, err := m.Console.AwaitMatch(ctx, 0, regexp.MustCompile(`switching to the root`)); err != nil {
		return err
	}
	time.Sleep(settle)
	return nil
}

// unknown waits until the machine says that no file knows it, and shows the page of spore-screen, which is a bar at the
// top.
func unknown(ctx context.Context, m *vm.Machine) error {
	_, _, _, err := m.Console.AwaitStatus(ctx, 0, "a status line of an unknown machine", func(s vm.Status) bool {
		return s.Node == "" && s.Problem != "" && s.System == "running"
	})
	for err == nil {
		var now image.Image
		if now, err = m.Screen(); err == nil && hasBar(now) {
			break
		}
		if ctx.Err() != nil {
			return errors.New("the monitor shows no page")
		}
		time.Sleep(settle)
	}
	time.Sleep(settle)
	return err
}

// hasBar tells whether most of a picture's first row is bright.
func hasBar(picture image.Image) bool {
	b, bright := picture.Bounds(), 0
	for x := b.Min.X; x < b.Max.X; x++ {
		if r, _, _, _ := picture.At(x, b.Min.Y).RGBA(); r > 0x6000 {
			bright++
		}
	}
	return bright > b.Dx()/2
}

// take writes the screen. A screen has few colours, and a picture with a palette is a third as large.
func take(m *vm.Machine, name string) error {
	screen, err := m.Screen()
	if err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := errors.Join(encoder.Encode(f, withPalette(screen)), f.Close()); err != nil {
		return err
	}
	fmt.Println(name)
	return nil
}

// withPalette is the picture with a palette, or as it is when it has more colours than one can have.
func withPalette(in image.Image) image.Image {
	var colors color.Palette
	box := in.Bounds()
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			if c := in.At(x, y); !slices.Contains(colors, c) {
				if colors = append(colors, c); len(colors) > 256 {
					return in
				}
			}
		}
	}
	out := image.NewPaletted(box, colors)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			out.Set(x, y, in.At(x, y))
		}
	}
	return out
}
