// Package fat reads, makes and changes FAT32 filesystems, after Microsoft's "FAT: General Overview of On-Disk
// Format", version 1.03.
//
// What it reads is outside data. What New makes is a function of what goes in: directories and files lie one behind
// the other in the order of their paths, all with the same date. Edit makes, renames and removes files of a
// filesystem that nobody has mounted, in place and so that a loss of power leaves each file old or new. FAT12 and
// FAT16 are read by OpenAny alone, and are neither made nor changed.
//
// It is our own, since github.com/diskfs/go-diskfs has no way to say in which order its writes reach the disk, writes
// the whole table again for each file that grows, and lays files out in the order in which they are written.
package fat
