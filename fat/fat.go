// Package fat reads and makes FAT32 filesystems, after Microsoft's "FAT: General Overview of On-Disk Format", version 1.03.
//
// What it reads is outside data. What it makes is a function of what goes in: directories and files lie one behind the
// other, with the date and the order that they are given. It does not change a filesystem in place, and knows neither FAT12
// nor FAT16.
package fat
