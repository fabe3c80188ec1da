/** A module that opens nothing. */
module closed {
}
