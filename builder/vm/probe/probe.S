# Assembled by: as -o p.o probe.S && ld -Ttext 0x7c00 --oformat binary -o probe.bin p.o
# A boot sector that goes from real mode to 64-bit mode, uses SSE, writes "K" to the debug console and ends QEMU.
.code16
start:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movw $0x7c00, %sp
    # page tables: 0x1000 PML4, 0x2000 PDPT, 0x3000 PD with one 2 MiB page
    movw $0x1000, %di
    movw $0x1800, %cx
    rep stosw
    movl $0x2003, 0x1000
    movl $0x3003, 0x2000
    movl $0x0083, 0x3000
    movl $0x1000, %eax
    movl %eax, %cr3
    movl $0x620, %eax          # PAE, OSFXSR, OSXMMEXCPT
    movl %eax, %cr4
    movl $0xc0000080, %ecx     # EFER.LME
    rdmsr
    orl $0x100, %eax
    wrmsr
    lgdt gdtr
    movl $0x80000011, %eax     # PG, PE
    movl %eax, %cr0
    ljmpl $8, $long
.code64
long:
    cpuid
    pxor %xmm0, %xmm0
    movl $100000, %ecx
1:  incq %rbx
    loop 1b
    movb $'K', %al
    movw $0xe9, %dx
    outb %al, %dx
    xorl %eax, %eax
    movw $0xf4, %dx            # isa-debug-exit: status 0*2+1
    outb %al, %dx
2:  hlt
    jmp 2b
.balign 8
gdt: .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff
gdtr: .word gdtr-gdt-1
    .long gdt
.org 510
.word 0xaa55
