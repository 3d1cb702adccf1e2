"""What a training would take, told before it begins: texts counted, memory and work by arithmetic, hours."""
